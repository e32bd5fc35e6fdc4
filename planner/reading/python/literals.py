"""Strings of Python as they are written: each character with its place.

Source: Python 3.13 language reference, "String and Bytes literals", "f-strings".
"""

from __future__ import annotations

import re
from collections.abc import Callable

from planner.reading.passage import Composer, Passage, together

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
