"""The words, operators, arrays and here-documents of a shell text, from a place on."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from planner.reading.passage import Passage
from planner.reading.scripts.blocks import lines_of
from planner.reading.scripts.variables import Variables
from planner.reading.scripts.word import Word
from planner.reading.scripts.words import read_document, read_word

_COMMENT = re.compile(r"#[^\n]*")
_TO_FILE = re.compile(r"1?>>?\Z|&>>?\Z")
_ARRAY = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<more>\+?)=\(")
_BLANK = re.compile(r"(?:[ \t\r\f\v]|[\\^`][ \t]*\r?\n)+")
"""Blanks and continued lines, those of Windows' two shells included."""
_OPERATOR = re.compile(r"\d?(?:&>>?|>>|>&|<<<|<<-?|<&|[<>])|&&|\|\||;;|[|&;()]|\n")
_ALL = re.compile(
    r'(?P<quote>"?)\$(?:(?P<plain>[@*])|\{(?P<name>[A-Za-z_]\w*(?=\[)|[@*])(?:\[[@*]\])?'
    r"(?::?[-+](?:\"?\$\{(?P=name)(?:\[[@*]\])?\}\"?)?)?\})(?P=quote)(?=[\s;&|)<>]|\Z)"
)
"""All items of an array, or all arguments, as words of their own."""
_OF_A_WORD = 16
"""Characters that a word counts for beside its own."""


class Lexer:
    """Reads words and operators of one text; `at` is where it stands."""

    def __init__(self, passage: Passage, scope: Variables) -> None:
        """Begin at the start of a text."""
        self.passage = passage
        self.text = passage.text
        self.at = 0
        self.scope = scope
        self.is_in_array = False
        self.run: list[Passage] = []
        """Commands of `$(...)` in the words that were read."""
        self.awaited: list[tuple[str, bool]] = []
        """Here-documents that begin with the next line: their ends, and if quoted."""

    def may_set(self, name: str) -> bool:
        """Return whether a variable is set here; it may be set back later."""
        return bool(name)

    @cached_property
    def lines(self) -> Mapping[str, Sequence[int]]:
        """Where lines begin, by their words."""
        return lines_of(self.text)

    def redirected(self, operator: str) -> str:
        """Read what stands behind a redirection; return the file written to."""
        self.skip_blank()
        if self.at >= len(self.text) or self.operator() is not None:
            return ""
        start = self.at
        word = self.words()
        if operator.startswith("<<") and operator != "<<<":
            written = self.text[start : self.at]
            end = re.sub(r"[\\'\"]", "", written)
            self.awaited.append((end, end != written))
        return word[0].value if word and _TO_FILE.match(operator) else ""

    def documents(self) -> tuple[Passage, ...]:
        """Return the here-documents that begin here."""
        found: list[Passage] = []
        for end, is_quoted in self.awaited:
            starts = self.lines.get(end, ())
            number = bisect_left(starts, self.at)
            if number == len(starts):
                break
            last = starts[number]
            body = self.passage.part(self.at, last)
            found.append(body if is_quoted else read_document(body, self.scope))
            self.at = self.text.index(end, last) + len(end)
        self.awaited = []
        return tuple(found)

    def skip_blank(self) -> None:
        """Pass over blanks, continued lines and comments."""
        while match := (
            _BLANK.match(self.text, self.at) or _COMMENT.match(self.text, self.at)
        ):
            self.at = match.end()

    def operator(self) -> str | None:
        """Return the operator that stands here, and pass over it."""
        match = _OPERATOR.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match[0]

    def words(self) -> list[Word]:
        """Return a word; or those of a variable without quotes, or of an array."""
        array = None if self.is_in_array else _ARRAY.match(self.text, self.at)
        if array is not None:
            self._array(array)
            return []
        built = read_word(self.passage, self.at, self.scope)
        every = _ALL.fullmatch(self.text, self.at, built.end)
        items = every and self.scope.words(every["plain"] or every["name"])
        self.at = built.end
        self.run += built.run
        is_one = every is None or (every["quote"] and "*" in every[0])
        if items is None or is_one:
            return built.split()
        size = sum(len(one.value) + _OF_A_WORD for one in items)
        self.passage.expansion.add(size)
        return [replace(one, via=built.word) for one in items]

    def _array(self, array: re.Match[str]) -> None:
        """Read `NAME=(...)`."""
        self.at = array.end()
        self.is_in_array = True
        found: list[Word] = []
        while self.at < len(self.text):
            self.skip_blank()
            if (operator := self.operator()) is None:
                found += self.words()
            elif operator == ")":
                break
        self.is_in_array = False
        if not self.may_set(array["name"]):
            return
        self.scope.set_array(array["name"], found, is_more=bool(array["more"]))
