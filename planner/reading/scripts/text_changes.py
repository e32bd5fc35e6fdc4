"""What a shell makes of a variable's text: `${MODEL##*/}`, `${NAME,,}`, `${A//x/y}`.

Source: POSIX.1-2017 `XCU 2.6.2 Parameter Expansion`; Bash 5.2 "Shell Parameter
Expansion".
"""

from __future__ import annotations

from fnmatch import fnmatchcase

_LONGEST = 200


def changed(value: str, change: str) -> str | None:
    """Return a value after a change; None for one that is not read.

    >>> changed("org/name-8B", "##*/"), changed("org/name-8B", "%%-*")
    ('name-8B', 'org/name')
    >>> changed("a.b", "//./-"), changed("Qwen", ",,"), changed("a", "#[ab]")
    ('a-b', 'qwen', '')
    """
    if change in (",,", "^^"):
        return value.lower() if change == ",," else value.upper()
    is_twice = change[:1] == change[1:2]
    pattern = change[1 + is_twice :]
    if change[0] == "/":
        old, _, new = pattern.partition("/")
        is_plain = old and not set(old) & set("*?[]") and old[0] not in "#%"
        return value.replace(old, new, -1 if is_twice else 1) if is_plain else None
    if len(value) > _LONGEST or not pattern.strip("*") or pattern.count("*") > 1 + 1:
        return None
    is_front = change[0] == "#"
    cuts = [
        at
        for at in range(len(value) + 1)
        if fnmatchcase(value[:at] if is_front else value[at:], pattern)
    ]
    if not cuts:
        return value
    at = cuts[-1] if is_front == is_twice else cuts[0]
    return value[at:] if is_front else value[:at]
