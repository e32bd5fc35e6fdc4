"""Strings of Python as they are written: each character with its place.

Source: Python 3.13 language reference, "String and Bytes literals", "f-strings".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from planner.reading.passage import Passage
from planner.values import frozen

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


@frozen
class Part:
    """Characters of a string, or a hole in it."""

    passage: Passage
    """The characters as Python reads them; of a hole, what stands in the code."""
    start: int
    end: int
    """Its place in the page, braces included."""
    token: int
    """Where the string begins that it is in: one text can have several."""
    is_hole: bool = False


def parts_of(page: Passage, start: int, end: int) -> list[Part] | None:
    r"""Return the parts of the strings between two places; None for other code.

    >>> text = "f'a{b}' 'c'"
    >>> [one.passage.text for one in parts_of(Passage.whole(text), 0, len(text)) or ()]
    ['a', '{b}', '', 'c']
    """
    found, at = list[Part](), start
    while at < end:
        gap = _GAP.match(page.text, at, end)
        at = at if gap is None else gap.end()
        if at >= end:
            break
        opens = _OPENS.match(page.text, at, end)
        if opens is None:
            return None
        string = _String(page, opens)
        found += string.parts(end)
        at = string.at
        if at < 0:
            return None
    return found


class _String:
    """One string from its quote to its quote."""

    def __init__(self, page: Passage, opens: re.Match[str]) -> None:
        prefix = opens["prefix"].lower()
        self.page, self.text = page, page.text
        self.is_raw, self.has_holes = "r" in prefix, "f" in prefix
        self.quote = opens["quote"]
        self.token, self.at = opens.start(), opens.end()
        self.special = re.compile(rf"\\|{self.quote}" + "|[{}]" * self.has_holes)
        self.pieces, self.places = list[str](), list[int]()

    def parts(self, end: int) -> Iterator[Part]:
        """Yield what stands in the string; `at` is below zero where it has no end."""
        while True:
            found = self.special.search(self.text, self.at, end)
            if found is None:
                self.at = -1
                return
            self._add(self.text[self.at : found.start()], self.at)
            if found[0] == self.quote:
                yield self._part(found.start())
                self.at = found.end()
                return
            if found[0] == "\\":
                self._escaped(found.start())
            elif self.text.startswith(found[0] * 2, found.start()):
                self._add(found[0], found.start())
                self.at = found.start() + 2
            else:
                yield self._part(found.start())
                self.at = self._end_of_hole(found.end(), end)
                hole = self.page.part(found.start(), self.at)
                yield self._made(hole, found.start(), is_hole=True)

    def _made(self, passage: Passage, start: int, *, is_hole: bool = False) -> Part:
        return Part(
            passage=passage,
            start=start,
            end=self.at,
            token=self.token,
            is_hole=is_hole,
        )

    def _part(self, end: int) -> Part:
        passage = self.page.inside(
            "".join(self.pieces), [*self.places, end], self._encoder()
        )
        start = self.places[0] if self.places else end
        self.pieces, self.places, self.at = [], [], end
        return self._made(passage, start)

    def _add(self, text: str, at: int) -> None:
        self.pieces.append(text)
        self.places += range(at, at + len(text))

    def _escaped(self, at: int) -> None:
        match = _ESCAPE.match(self.text, at)
        if self.is_raw or match is None:
            self._add(self.text[at : at + 2], at)
            self.at = at + 2
            return
        self.at = match.end()
        code = match["x"] or match["u"] or match["U"]
        if match["line"] is None:
            number = int(match["octal"], 8) if match["octal"] else int(code or "0", 16)
            one = match["one"]
            told = chr(min(number, _LAST)) if one is None else _ESCAPES.get(one, one)
            self.pieces.append(told)
            self.places.append(at)

    def _end_of_hole(self, at: int, end: int) -> int:
        depth = 1
        for match in _IN_HOLE.finditer(self.text, at, end):
            depth += (match[0] in "[({") - (match[0] in "])}")
            if not depth:
                return match.end()
        return end

    def _encoder(self) -> Callable[[str], str]:
        quote, is_raw, has_holes = self.quote, self.is_raw, self.has_holes

        def encode(new: str) -> str:
            new = new if is_raw else new.replace("\\", "\\\\")
            new = new.replace(quote[0], f"\\{quote[0]}")
            new = re.sub(r"([{}])", r"\1\1", new) if has_holes else new
            return new if len(quote) > 1 else new.replace("\n", "\\n")

        return encode
