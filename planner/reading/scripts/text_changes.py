"""What a shell makes of a variable's text: `${MODEL##*/}`, `${NAME,,}`, `${A//x/y}`.

Source: POSIX.1-2017 `XCU 2.6.2 Parameter Expansion`; Bash 5.2 "Shell Parameter
Expansion".
"""

from __future__ import annotations

import re

_GLOB = re.compile(r"[*?\[\]]")


def changed(value: str, change: str) -> str | None:
    """Return a value after a change; None for one with other patterns.

    >>> changed("org/name-8B", "##*/"), changed("org/name-8B", "%%-*")
    ('name-8B', 'org/name')
    >>> changed("a.b", "//./-"), changed("Qwen", ",,"), changed("a", "#[ab]")
    ('a-b', 'qwen', None)
    """
    if change in (",,", "^^"):
        return value.lower() if change == ",," else value.upper()
    if change[0] == "/":
        return _replaced(value, change)
    is_longest = change[:1] == change[1:2]
    pattern = change[2 if is_longest else 1 :]
    cuts_front = change[0] == "#"
    part = pattern.removeprefix("*") if cuts_front else pattern.removesuffix("*")
    if _GLOB.search(part) or not part:
        return None
    if part == pattern:
        cut = value.removeprefix if cuts_front else value.removesuffix
        return cut(part)
    if part not in value:
        return value
    is_last = is_longest == cuts_front
    before, _, after = value.rpartition(part) if is_last else value.partition(part)
    return after if cuts_front else before


def _replaced(value: str, change: str) -> str | None:
    is_all = change.startswith("//")
    old, _, new = change[2 if is_all else 1 :].partition("/")
    if _GLOB.search(old) or not old or old[0] in "#%":
        return None
    return value.replace(old, new, -1 if is_all else 1)
