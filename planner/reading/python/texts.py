"""Texts that code puts together, of pieces that keep where they are written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.reading.passage import Passage, columns, line_starts
from planner.reading.python.values import Fragment, Place, Scope, Slot, Value

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
        source = " ".join(self.text[start : min(end, start + 400)].split())
        source = source[:_LONGEST_SOURCE] or "?"
        shown = f"`{source.replace('`', chr(39))}`"
        piece = Fragment(
            text=shown,
            passage=self._whole(node, shown),
            is_whole=True,
            use=self.span(node),
            is_open=True,
        )
        return Value(node=node, open=source, pieces=(piece,))

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
        piece = Fragment(text=text, passage=self._whole(node, text), is_whole=True)
        return Value(node=node, constant=constant, pieces=(piece,))

    def _whole(self, node: ast.expr, text: str) -> Passage:
        start, end = self.span(node)
        places = [start] * len(text) + [end]
        return self.page.inside(text, places, lambda new: written(new))

    def number(self, new: str) -> str:
        """Write a number in the place of one."""
        return self.page.encode(written(new))

    def put_in(self, value: Value, use: Place, token: int) -> Iterator[Fragment]:
        """Yield the pieces of a value that is put into a text."""
        pieces = value.pieces
        if value.constant is None and not value.open:
            pieces = self.unknown(value.node).pieces if value.node else ()
        self.page.expansion.add(sum(len(piece.text) + _COST for piece in pieces))
        for piece in pieces:
            yield replace(piece, use=use, token=token)

    def made_of(self, node: ast.expr, pieces: Sequence[Fragment]) -> Value:
        """Return a text of pieces, open where one of them is."""
        text = "".join(piece.text for piece in pieces)
        is_open = any(piece.is_open for piece in pieces)
        return Value(
            node=node,
            constant=None if is_open else text,
            open=text[:_LONGEST_SOURCE] if is_open else "",
            pieces=tuple(pieces) or self.calculated(node, "").pieces,
        )

    def filled(
        self,
        node: ast.expr,
        text: Value,
        holes: re.Pattern[str],
        several: Sequence[Slot],
        named: Mapping[str, Slot],
    ) -> Value | None:
        """Return a text whose holes are filled: of `%`, of `.format`."""
        pieces: list[Fragment] = []
        count = 0
        for piece in text.pieces:
            done = 0
            for match in holes.finditer(piece.text):
                name = match["name"] or str(count)
                count += not match["name"]
                index = int(name) if name.isdigit() else len(several)
                slot = named.get(name) or (several[index : index + 1] or (None,))[0]
                if slot is None:
                    continue
                pieces += _cut(piece, done, match.start())
                pieces += (
                    replace(one, use=None, token=-1)
                    for one in self.put_in(slot.value, (0, 0), -1)
                )
                done = match.end()
            pieces += _cut(piece, done, len(piece.text))
        return self.made_of(node, pieces)


def _cut(piece: Fragment, start: int, end: int) -> Iterator[Fragment]:
    if start >= end:
        return
    if piece.is_whole:
        yield piece
    else:
        part = piece.passage.part(start, end)
        yield replace(piece, text=part.text, passage=part)


def written(value: object) -> str:
    """Return a value as code; a text that is a number as a number.

    >>> written("12"), written((1, "a"))
    ('12', "[1, 'a']")
    """
    if isinstance(value, str) and re.fullmatch(r"-?\d+(?:\.\d+)?", value):
        return value
    return repr(list(value) if isinstance(value, tuple) else value)
