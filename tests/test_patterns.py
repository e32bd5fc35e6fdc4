r"""No pattern takes quadratic time on blank lines: seen in its structure.

`^\s*` under MULTILINE begins again at each of many blank lines, and reads them all
each time; of two unbounded repeats in a row that match a line's end, so does the first.
`make fuzz` measures whole texts of repeated pieces.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

_FOLDER = Path(__file__).parents[1] / "planner"
_LINE_END = ord("\n")
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)
_CALLS = ("compile", "search", "match", "sub", "finditer", "findall", "split")


def _matches(op: Any, given: Any) -> bool:
    """Return whether one item of a pattern can match a line's end."""
    if op is codes.LITERAL:
        return bool(given == _LINE_END)
    if op is codes.NOT_LITERAL:
        return bool(given != _LINE_END)
    if op is codes.RANGE:
        return bool(given[0] <= _LINE_END <= given[1])
    if op is codes.CATEGORY:
        spaces = (codes.CATEGORY_SPACE, codes.CATEGORY_NOT_WORD)
        return given in (*spaces, codes.CATEGORY_NOT_DIGIT)
    if op is codes.IN:
        is_negated = given[0][0] is codes.NEGATE
        return is_negated != any(_matches(*one) for one in given[is_negated:])
    return any(_matches(*one) for inner in _inside(op, given) for one in inner)


def _inside(op: Any, given: Any) -> list[Any]:
    """Return the sequences in an item."""
    if op in _REPEATS:
        return [given[2]]
    if op is codes.SUBPATTERN:
        return [given[3]]
    return list(given[1]) if op is codes.BRANCH else []


def _may_be_empty(op: Any, given: Any) -> bool:
    if op in _REPEATS:
        return given[0] == 0 or all(_may_be_empty(*one) for one in given[2])
    if op is codes.AT:
        return True
    inner = _inside(op, given)
    return bool(inner) and any(all(_may_be_empty(*i) for i in one) for one in inner)


def _faults(sequence: Any, *, at_line: bool, is_multiline: bool) -> Iterator[str]:
    """Yield what is quadratic in a sequence of items."""
    is_open = False
    for op, given in sequence:
        if op is codes.AT and given is codes.AT_BEGINNING:
            at_line = is_multiline
        is_unbounded = op in _REPEATS and given[1] is codes.MAXREPEAT
        is_blank = is_unbounded and any(_matches(*one) for one in given[2])
        if is_blank and at_line:
            yield "a repeat over lines' ends after ^"
        if is_blank and _matches(*given[2][0]):
            if is_open:
                yield "two repeats over lines' ends in a row"
            is_open = True
        elif not _may_be_empty(op, given):
            is_open = False
        for inner in _inside(op, given):
            yield from _faults(inner, at_line=at_line, is_multiline=is_multiline)
        at_line = at_line and _may_be_empty(op, given)


def faults_of(pattern: str, *, is_multiline: bool) -> list[str]:
    """Return the faults of a pattern; none of a text that is no pattern."""
    try:
        parsed = parser.parse(pattern)
    except (re.error, OverflowError, RecursionError):
        return []
    is_multiline = is_multiline or bool(parsed.state.flags & re.MULTILINE)
    return list(_faults(parsed, at_line=False, is_multiline=is_multiline))


def _text(node: ast.AST) -> str | None:
    """Return a literal, with x for what an f-string puts in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "x" for part in node.values)
    return None


def _patterns(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yield the patterns of a module, and whether ^ is there a line's beginning.

    Where a name is given to `re` with MULTILINE, every literal of the module may be it.
    """
    is_named = False
    for node in ast.walk(tree):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if not is_call or node.func.attr not in _CALLS or not node.args:
            continue
        flags = " ".join(map(ast.unparse, [*node.args[1:], *node.keywords]))
        is_multiline = re.search(r"re\.M(?:ULTILINE)?\b", flags) is not None
        pattern = _text(node.args[0])
        if pattern is not None:
            yield pattern, is_multiline
        is_named = is_named or (is_multiline and pattern is None)
    if is_named:
        for node in ast.walk(tree):
            if (text := _text(node)) is not None:
                yield text, True


@pytest.mark.parametrize(
    ("pattern", "is_multiline", "number"),
    [
        (r"^\s*(?:import|from)\s", True, 1),
        (r"^\s*(?:import|from)\s", False, 0),
        (r"(?m)(?:x|^(?:a?)[\s>]*)y", False, 1),
        (r"^[ \t]*FROM", True, 0),
        (r"a\s+(?:b\s+)?\s*c", False, 1),
        (r"a\s+b\s*c", False, 0),
    ],
)
def test_the_law_knows_what_it_looks_for(
    pattern: str, is_multiline: bool, number: int
) -> None:
    """The patterns that were quadratic, and what replaces them."""
    assert number == len(faults_of(pattern, is_multiline=is_multiline))


def test_no_pattern_reads_blank_lines_again_and_again() -> None:
    """Every literal pattern of every module."""
    found = {
        f"{path.relative_to(_FOLDER)}: {pattern[:80]}": faults
        for path in sorted(_FOLDER.rglob("*.py"))
        for pattern, is_multiline in _patterns(ast.parse(path.read_text("utf-8")))
        if (faults := faults_of(pattern, is_multiline=is_multiline))
    }
    assert not found


def _texts_of(value: Any) -> Iterator[str]:
    """Yield the texts of a table; some are patterns."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts_of(one)


@pytest.mark.parametrize(
    "name", ["signs", "failed_checks", "frameworks", "question_words"]
)
def test_no_pattern_of_a_table_is_quadratic_on_blank_lines(name: str) -> None:
    """Readers join them to patterns of their own."""
    table = json.loads((_FOLDER / f"data/{name}.json").read_text(encoding="utf-8"))

    assert [] == [
        text for text in _texts_of(table) if faults_of(text, is_multiline=True)
    ]
