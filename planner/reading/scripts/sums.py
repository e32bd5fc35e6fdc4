"""Sums of whole numbers as shells write them: `$((32 * 1024))`."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

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
