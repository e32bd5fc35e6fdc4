"""What a shell makes of numbers and texts: `$((32 * 1024))`, `${MODEL##*/}`, `${N,,}`.

Source: POSIX.1-2017 `XCU 2.6.2 Parameter Expansion`, `2.6.4 Arithmetic Expansion`; Bash
5.2 "Shell Parameter Expansion".
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

_LONGEST, _LARGEST = 200, 1 << 53
_NAME = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?")
_SUM = re.compile(r"[\d\s+*/%()<>-]+")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def whole_result(text: str, known: Callable[[str], str | None]) -> int | None:
    """Return what a sum of whole numbers and known variables comes to.

    >>> whole_result("32 * 1024", lambda name: None)
    32768
    >>> whole_result("N / 2", {"N": "9"}.get), whole_result("M + 1", {}.get)
    (4, None)
    """
    if len(text) > _LONGEST:
        return None
    numbers = _NAME.sub(lambda name: known(name[1]) or "?", text)
    if not _SUM.fullmatch(numbers):
        return None
    try:
        tree = ast.parse(numbers.strip().replace("/", "//"), mode="eval")
        return _result(tree.body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _result(node: ast.expr) -> int:
    """Return the value of a node; nothing but sums of numbers is read.

    Raises:
        ValueError: for anything else.
    """
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        result = _OPERATORS[type(node.op)](_result(node.left), _result(node.right))
        if abs(result) <= _LARGEST:
            return result
    raise ValueError(ast.dump(node)[:80])


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
