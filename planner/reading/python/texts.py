"""Texts of code, as they are written and put together: each character with its place.

Source: Python 3.13 language reference, "String and Bytes literals", "f-strings".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from planner.reading.passage import (
    Composer,
    Passage,
    columns,
    line_starts,
    together,
)
from planner.reading.python.values import Place, Scope, Slot, Value

_OPENS = re.compile(r"(?P<prefix>[rRuUbBfF]{0,2})(?P<quote>\"\"\"|'''|\"|')")
_GAP = re.compile(r"(?:\s|\\\r?\n|#[^\n]*)*")
_ESCAPE = re.compile(
    r"\\(?:(?P<line>\r?\n)|(?P<octal>[0-7]{1,3})|x(?P<x>[\da-fA-F]{2})"
    r"|u(?P<u>[\da-fA-F]{4})|U(?P<U>[\da-fA-F]{8})|(?P<one>.))",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_IN_HOLE = re.compile(r"[\[({]|[\])}]|'[^'\n]*'|\"[^\"\n]*\"")
_LAST = 0x10FFFF
Fill = Callable[[Composer, int], None]
"""Puts what stands in the next hole into a text, at the place of the hole."""
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


def string_of(page: Passage, start: int, end: int, fill: Fill) -> Passage | None:
    r"""Return the text of the strings between two places; None for other code.

    >>> text = "f'a{b}' 'c'"
    >>> found = string_of(
    ...     Passage.whole(text), 0, len(text), lambda made, at: made.add("B", at)
    ... )
    >>> found.text, list(found.places)
    ('aBc', [2, 3, 9, 10])
    """
    found, at = list[Passage](), start
    while True:
        gap = _GAP.match(page.text, at, end)
        at = at if gap is None else gap.end()
        if at >= end:
            break
        opens = _OPENS.match(page.text, at, end)
        string = None if opens is None else _String(page, opens, end)
        text = None if string is None else string.read(fill)
        if string is None or text is None:
            return None
        found.append(text)
        at = string.at
    if not found:
        return None
    return found[0] if len(found) == 1 else together(found)


class _String(Composer):
    """One string from its quote to its quote."""

    def __init__(self, page: Passage, opens: re.Match[str], end: int) -> None:
        super().__init__(page)
        prefix = opens["prefix"].lower()
        self.text, self.end = page.text, end
        self.is_raw, self.has_holes = "r" in prefix, "f" in prefix
        self.quote, self.at = opens["quote"], opens.end()
        self.special = re.compile(rf"\\|{self.quote}" + "|[{}]" * self.has_holes)

    def read(self, fill: Fill) -> Passage | None:
        """Return what stands in the string; None where it has no end."""
        while (found := self.special.search(self.text, self.at, self.end)) is not None:
            start, sign = found.start(), found[0]
            self.keep(self.at, start)
            self.at = found.end()
            if sign == self.quote:
                return self.passage(start, self._encoder())
            if sign == "\\":
                self._escaped(start)
            elif self.text.startswith(sign, self.at):
                self.keep(start, self.at)
                self.at += 1
            else:
                fill(self, start)
                self.at = self._end_of_hole()
        return None

    def _escaped(self, at: int) -> None:
        match = _ESCAPE.match(self.text, at)
        if self.is_raw or match is None:
            self.at = at + 2
            self.keep(at, self.at)
            return
        self.at = match.end()
        if match["line"] is None:
            code = match["x"] or match["u"] or match["U"]
            number = int(match["octal"], 8) if match["octal"] else int(code or "0", 16)
            one = match["one"]
            told = chr(min(number, _LAST)) if one is None else _ESCAPES.get(one, one)
            self.add(told, at)

    def _end_of_hole(self) -> int:
        depth = 1
        for match in _IN_HOLE.finditer(self.text, self.at, self.end):
            depth += (match[0] in "[({") - (match[0] in "])}")
            if not depth:
                return match.end()
        return self.end

    def _encoder(self) -> Callable[[str], str]:
        quote, is_raw, has_holes = self.quote, self.is_raw, self.has_holes

        def encode(new: str) -> str:
            new = new if is_raw else new.replace("\\", "\\\\")
            new = new.replace(quote[0], f"\\{quote[0]}")
            new = re.sub(r"([{}])", r"\1\1", new) if has_holes else new
            return new if len(quote) > 1 else new.replace("\n", "\\n")

        return encode
