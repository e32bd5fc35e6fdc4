"""One word of a shell command: its value, and where the text writes each part of it.

Source: POSIX.1-2017 `XCU 2.2 Quoting`, `2.6 Word Expansions`; Bash 5.2 "Arrays".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.reading.passage import Composer, Passage, Span
from planner.reading.scripts.expansions import changed, whole_result
from planner.reading.scripts.variables import Variables
from planner.reading.scripts.word import (
    Word,
    escaped,
    in_document,
    in_double,
    in_single,
)
from planner.values import frozen

_PLAIN = re.compile(r"(?:[^\s\\'\"$`|&;<>()#{]|\{(?!\{))+")
_ALONE = re.compile(r"[^\s\\'\"$`|&;<>()#{}]+(?=[\s|&;<>()]|\Z)")
"""A word that stands for itself as a whole, as most do."""
_ON_A_DRIVE = re.compile(r"(?:\A|[\s=])[A-Za-z]:(?:\\[\w.-]+)*\Z")
"""A path of Windows, in which a backslash stands for itself."""
_LONGEST_PATH = 260
_TEMPLATE = re.compile(r"\{\{[^{}\n]*+\}\}")
"""What another program fills in before the shell reads the text."""
_BRACES = r"[^{}]*+(?:\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}[^{}]*+)*+"
_PARENS = r"[^()]*+(?:\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)[^()]*+)*+"
_PARAMETER = re.compile(
    r"\$(?:(?P<plain>[A-Za-z_]\w*|[0-9@*])"
    r"|\{(?P<braced>[A-Za-z_]\w*|\d+|[@*])(?P<item>\[[^\]{}]*\])?"
    rf"(?:(?P<then>:?[-=?+])(?P<rest>{_BRACES})"
    r"|(?P<change>,,|\^\^|[#%/][^{}$\"'\\`]+))?\})"
)
_SUM = re.compile(rf"\$\(\((?P<sum>{_PARENS})\)\)")
_SIZE = re.compile(r"\$\{#([A-Za-z_]\w*)\[[@*]\]\}")
_OTHER = re.compile(rf"\$\((?P<run>{_PARENS})\)|\$\{{{_BRACES}\}}|`[^`]*`|\$\S?")
"""What is decided when the script runs."""
_NO_QUOTE = "\0"
_ESCAPED, _ESCAPED_IN_TEXT = frozenset('"\\$`\n'), frozenset("\\$`\n")
"""Between double quotes, and in a here-document."""
_PLAIN_IN = {
    "'": re.compile(r"[^'{]+"),
    '"': re.compile(r'[^"\\$`{]+'),
    "": re.compile(r"[^\\$`{]+"),
    _NO_QUOTE: re.compile(r"[^\\$`{]+"),
}
"""What stands for itself between quotes, and in a here-document."""
_MAY_START = ("vllm", "docker", "podman")  # in `$(...)` whose commands are read
_MOST_NAMES = 40
_SPLIT = re.compile(r"[^\\'\"`$|&;<>()*?]*")
"""A value whose blanks part words: it has no quotes, operators and patterns."""


@frozen
class Built:
    """A word as it was read: with its value, and where blanks may part it."""

    word: Word
    end: int
    """Where the word ends in its passage."""
    breaks: tuple[Span, ...] = ()
    """Stretches of its value that came from variables without quotes."""
    run: tuple[Passage, ...] = ()
    """Commands in `$(...)`."""
    is_quoted: bool = False

    def split(self) -> list[Word]:
        """Return the words that a shell makes of it."""
        if not self.breaks:
            return [self.word.resolved()]
        value = self.word.value
        plain = value
        for name in self.word.variables[:_MOST_NAMES]:
            plain = plain.replace(name, "_" * len(name))
        blanks = [
            (first + gap.start(), first + gap.end())
            for first, last in self.breaks
            if _SPLIT.fullmatch(plain, first, last)
            for gap in re.finditer(r"\s+", plain[first:last])
        ]
        if not value and not self.is_quoted:
            return []
        if not blanks:
            return [self.word.resolved()]
        starts = [0, *(last for _, last in blanks)]
        ends = [*(first for first, _ in blanks), len(value)]
        spans = zip(starts, ends, strict=True)
        return [self.word.part(*span) for span in spans if span[0] < span[1]]


def read_word(passage: Passage, at: int, scope: Variables) -> Built:
    """Return the word that begins at a place; at least one character."""
    alone = None if passage.pieces else _ALONE.match(passage.text, at)
    if alone is not None:
        own = passage.own(at, alone.end())
        inner = replace(own, encode=lambda value: own.encode(escaped(value)))
        return Built(word=_word(inner, own), end=alone.end())
    reader = _Builder(passage, scope, len(passage.text))
    end = reader.read(at)
    if end == at:  # nothing that a word begins with: one character of it
        end += 1
        reader.keep(at, end)
    inner, own = reader.built(end), passage.own(at, end)
    variables = tuple(dict.fromkeys((*reader.variables, *inner.unknown)))
    return Built(
        word=_word(inner, own, variables),
        end=end,
        breaks=tuple(reader.breaks),
        run=tuple(reader.run),
        is_quoted=reader.escape is not None,
    )


def _word(inner: Passage, own: Passage, variables: tuple[str, ...] = ()) -> Word:
    return Word(
        passage=inner,
        start=own.places[0],
        end=own.places[-1],
        write=lambda value: own.encode(shlex.quote(value)),
        variables=variables,
    )


def read_document(passage: Passage, scope: Variables) -> Passage:
    """Return a here-document with what its variables stand for put in."""
    reader = _Builder(passage, scope, len(passage.text))
    reader.escape = in_document
    reader.quoted(0, "")
    return reader.built(len(passage.text))


class _Builder(Composer):
    """The characters of a word while it is read."""

    def __init__(self, outer: Passage, scope: Variables, stop: int) -> None:
        super().__init__(outer)
        self.text, self.scope = outer.text, scope
        self.stop = stop
        """Nothing is read from here on."""
        self.variables: list[str] = []
        self.breaks: list[Span] = []
        self.run: list[Passage] = []
        self.escape: Callable[[str], str] | None = None
        self.end: tuple[int, int] | None = None
        """Where a value in quotes ends, and how long the word is there."""

    def built(self, end: int) -> Passage:
        """Return what was read."""
        if self.end is not None and self.end[1] == len(self.places):
            end = self.end[0]
        return self.passage(end, self.escape or escaped)

    def read(self, at: int) -> int:
        """Read as far as the word goes."""
        while at < self.stop:
            taken = self._take(at)
            if taken == at:
                break
            at = taken
        return at

    def _take(self, at: int) -> int:  # noqa: PLR0911 - a kind of stretch each
        """Read a stretch of the word; return `at` itself where the word ends."""
        text = self.text
        if match := _PLAIN.match(text, at, self.stop):
            self.keep(*match.span())
            return match.end()
        character = text[at]
        if character in "'\"":
            return self._quotes(at, character)
        if character in "$`":
            first = len(self.places)
            end = self._variable(at, is_quoted=False)
            self.breaks.append((first, len(self.places)))
            return end
        if character == "{":
            return self._template(at)
        is_escape = character == "\\" and at + 1 < self.stop
        if is_escape and _ON_A_DRIVE.search(text[max(at - _LONGEST_PATH, 0) : at]):
            self.keep(at, at + 1)
            return at + 1
        if is_escape and not text.startswith(("\\\n", "\\\r\n"), at):
            self.keep(at + 1, at + 2)
            return at + 2
        if character == "#" and self.texts:
            self.keep(at, at + 1)
            return at + 1
        return at

    def _quotes(self, at: int, quote: str) -> int:
        is_first = "".join(self.texts[-2:])[-1:] in ("", "=")  # the quote of a value
        end = self.quoted(at + 1, quote)
        if is_first:
            self.escape = in_single if quote == "'" else in_double
            self.end = end, len(self.places)
        return min(end + 1, self.stop)

    def quoted(self, at: int, quote: str) -> int:
        """Read what stands in quotes; return where they close."""
        text = self.text
        while at < self.stop and text[at] != quote:
            following = text[at + 1 : at + 2]
            is_escape = quote != "'" and text[at] == "\\"
            if is_escape and following in (_ESCAPED if quote else _ESCAPED_IN_TEXT):
                if following != "\n":
                    self.keep(at + 1, at + 2)
                at += 2
            elif quote != "'" and text[at] in "$`":
                at = self._variable(at, is_quoted=True)
            elif text.startswith("{{", at):
                at = self._template(at)
            else:
                match = _PLAIN_IN[quote].match(text, at, self.stop)
                last = at + 1 if match is None else match.end()
                self.keep(at, last)
                at = last
        return at

    def _template(self, at: int) -> int:
        match = _TEMPLATE.match(self.text, at, self.stop)
        if match is None:
            self.keep(at, at + 1)
            return at + 1
        return self._leave_open(at, match.end())

    def _leave_open(self, at: int, end: int) -> int:
        self.variables.append(self.text[at:end])
        self.keep(at, end)
        return end

    def _variable(self, at: int, *, is_quoted: bool) -> int:
        match = _PARAMETER.match(self.text, at, self.stop)
        if match is not None:
            self._parameter(match, is_quoted=is_quoted)
            return match.end()
        found = _SUM.match(self.text, at, self.stop)
        result = None if found is None else whole_result(found["sum"], self._number)
        if found is not None and result is not None:
            self._put_text(str(result), at)
            return found.end()
        if not is_quoted and self.text.startswith(("$'", '$"'), at):
            return at + 1
        size = _SIZE.match(self.text, at, self.stop)
        if size is not None and self.scope.words(size[1]) is not None:
            self._put_text(str(len(self.scope.keys(size[1]))), at)
            return size.end()
        other = _OTHER.match(self.text, at, self.stop)
        end = at + 1 if other is None else other.end()
        is_run = other is not None and other["run"] is not None
        if is_run and any(name in self.text[at:end] for name in _MAY_START):
            self.run.append(self.page.part(at + 2, end - 1))
        return self._leave_open(at, end)

    def _put_text(self, text: str, at: int) -> None:
        self.page.expansion.add(len(text))
        self.add(text, at)

    def _number(self, name: str) -> str | None:
        found = self.scope.words(name)
        return found[0].value if found and not found[0].variables else None

    def _parameter(self, match: re.Match[str], *, is_quoted: bool) -> None:
        """Put in what `$NAME`, `${NAME:-default}` and the like stand for."""
        name = match["plain"] or match["braced"]
        then = (match["then"] or "").removeprefix(":")
        found = self._items(name, match["item"])
        if match["change"]:
            self._put_changed(match, found)
            return
        is_told = bool(found) and not any(one.variables for one in found)
        is_empty = not "".join(one.value for one in found)
        if then == "+":
            if is_told and not is_empty:
                self._rest(match, is_quoted=is_quoted)
            elif not is_told:
                self._leave_open(*match.span())
        elif then in ("-", "=") and (
            not is_told or (":" in match["then"] and is_empty)
        ):
            value = self._rest(match, is_quoted=is_quoted)
            if then == "=":
                self.scope.set(name, value)
        elif not found:
            self._leave_open(*match.span())
        else:
            self._put_words(found, match.start(), self.scope.is_certain(name))

    def _put_changed(self, match: re.Match[str], found: Sequence[Word]) -> None:
        is_told = len(found) == 1 and not found[0].variables
        text = changed(found[0].value, match["change"]) if is_told else None
        if text is None:
            self._leave_open(*match.span())
        else:
            self._put_text(text, match.start())

    def _put_words(self, found: Sequence[Word], at: int, is_certain: bool) -> None:
        for number, one in enumerate(found):
            if number:
                self.add(" ", at)
            self.variables += one.variables
            if is_certain and not one.variables:
                self.put_in(one.passage, at)
            else:
                self._put_text(one.value, at)

    def _items(self, name: str, item: str | None) -> Sequence[Word]:
        found = self.scope.words(name) or ()
        number = (item or "[0]")[1:-1]
        if name in "@*" or number in ("@", "*"):
            return found
        if number.startswith("$"):
            number = self._number(number.strip("$")) or ""
        if number.isdecimal():
            return found[int(number) :][:1]
        key = f"[{number}]="  # an item of `declare -A`
        return [one.part(len(key)) for one in found if one.value.startswith(key)]

    def _rest(self, match: re.Match[str], *, is_quoted: bool) -> Word:
        """Put in what stands behind `:-` or `:+`, and return it."""
        start, end = match.span("rest")
        inner = _Builder(self.page, self.scope, end)
        if is_quoted and self.text[start : start + 1] not in ("'", '"'):
            inner.escape = in_double
            inner.quoted(start, _NO_QUOTE)
        else:
            while start < end:
                taken = inner.read(start)
                if taken < end and taken == start:  # a blank, or an operator
                    taken += 1
                    inner.keep(start, taken)
                start = taken
        passage = inner.built(end)
        self.variables += inner.variables
        self.run += inner.run
        if inner.variables:
            self._put_text(passage.text, match.start())
        else:
            self.put_in(passage, match.start())
        return Word(
            passage=passage,
            start=passage.places[0],
            end=passage.places[-1],
            write=passage.encode,
            variables=tuple(inner.variables),
        )
