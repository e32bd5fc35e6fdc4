"""Texts that code puts together, of pieces that keep where they are written."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from planner.reading.passage import (
    Composer,
    Passage,
    columns,
    line_starts,
    together,
)
from planner.reading.python.values import Place, Scope, Slot, Value

_LONGEST_SOURCE = 80
_LOOKED_AT = 400
_LONGEST_TEXT = 20_000
_COST = 8
"""Of a piece, in characters."""


class Texts:
    """The places of one piece of code, and the texts in it."""

    def __init__(self, page: Passage) -> None:
        """Store the code; nothing has a value yet."""
        self.page = page
        self.text = page.text
        self.lines = line_starts(page.text)
        self.columns: dict[int, list[int]] = {}
        self.scopes: tuple[Scope, ...] = ({},)
        self.imported: dict[str, str] = {}
        self.environ = Value(fields={})

    def unknown(self, node: ast.expr) -> Value:
        """Return a value that run time decides, by its code."""
        start, end = self.span(node)
        source = " ".join(self.text[start : min(end, start + _LOOKED_AT)].split())
        source = source[:_LONGEST_SOURCE] or "?"
        shown = f"`{source.replace('`', chr(39))}`"
        return Value(node=node, open=source, text=self._whole(node, shown))

    def span(self, node: ast.expr) -> Place:
        """Return where an expression stands in the page."""
        end_line = node.end_lineno or node.lineno
        end_column = node.end_col_offset or node.col_offset
        return self.at(node.lineno, node.col_offset), self.at(end_line, end_column)

    def at(self, line: int, column: int) -> int:
        """Return the place of a column, which Python counts in bytes of UTF-8."""
        start = self.lines[line - 1]
        if self.text.isascii():
            return start + column
        if line not in self.columns:
            end = self.lines[line] if line < len(self.lines) else len(self.text)
            self.columns[line] = list(columns(self.text[start:end]))
        places = self.columns[line]
        return start + places[min(column, len(places) - 1)]

    def calculated(self, node: ast.expr, constant: Any) -> Value:  # noqa: ANN401
        """Return the result of a calculation: it is written anew as a whole."""
        text = str(constant)
        if len(text) > _LONGEST_TEXT:
            return self.unknown(node)
        self.page.expansion.add(len(text))
        return Value(node=node, constant=constant, text=self._whole(node, text))

    def _whole(self, node: ast.expr, text: str) -> Passage:
        start, end = self.span(node)
        places = [start] * len(text) + [end]
        return self.page.inside(text, places, lambda new: written(new))

    def number(self, new: str) -> str:
        """Write a number in the place of one."""
        return self.page.encode(written(new))

    def put_in(self, made: Composer, value: Value | None, at: int) -> bool:
        """Append what a value is in a text; return whether a part of it is open."""
        known = value or Value()
        if known.constant is None and not known.open and known.node is not None:
            known = self.unknown(known.node)
        self.page.expansion.add(_COST)
        made.put_in(known.text, at)
        return bool(known.open)

    def made_of(self, node: ast.expr, text: Passage, *, is_open: bool) -> Value:
        """Return a text that is put together."""
        return Value(
            node=node,
            constant=None if is_open else text.text,
            open=text.text[:_LONGEST_SOURCE] if is_open else "",
            text=text,
            is_part=is_open,
        )

    def together(
        self, node: ast.expr, values: Sequence[Value], between: str = ""
    ) -> Value | None:
        """Return texts one behind the other; None where one has no code."""
        known = [
            self.unknown(one.node) if one.text is None and one.node else one
            for one in values
        ]
        texts = [one.text for one in known if one.text is not None]
        if len(texts) < len(values) or not texts:
            return None if values else self.calculated(node, "")
        self.page.expansion.add(sum(len(one.pieces) + 1 for one in texts))
        is_open = any(one.open for one in known)
        return self.made_of(node, together(texts, between), is_open=is_open)

    def filled(
        self,
        node: ast.expr,
        text: Value,
        holes: re.Pattern[str],
        several: Sequence[Slot],
        named: Mapping[str, Slot],
    ) -> Value | None:
        """Return a text whose holes are filled: of `%`, of `.format`."""
        page = text.text or self.page.part(0, 0)
        made, done, count, is_open = Composer(page), 0, 0, bool(text.open)
        for match in holes.finditer(page.text):
            name = match["name"] or str(count)
            count += not match["name"]
            index = int(name) if name.isdigit() else len(several)
            slot = named.get(name) or (several[index : index + 1] or (None,))[0]
            if slot is None:
                continue
            made.keep(done, match.start())
            is_open |= self.put_in(made, slot.value, match.start())
            done = match.end()
        made.keep(done, len(page.text))
        return self.made_of(node, made.passage(len(page.text)), is_open=is_open)


def written(value: object) -> str:
    """Return a value as code; a text that is a number as a number.

    >>> written("12"), written((1, "a"))
    ('12', "[1, 'a']")
    """
    if isinstance(value, str) and re.fullmatch(r"-?\d+(?:\.\d+)?", value):
        return value
    return repr(list(value) if isinstance(value, tuple) else value)
