"""The simple commands of a shell text: words with their places, never run.

Covers what people paste: quotes, escapes, line continuations (also with the backslash
forgotten), comments, variables and arrays assigned in the same text, functions, loops
over a list, here-documents, and several commands in one.

Source: POSIX.1-2017 `XCU 2 Shell Command Language`; Bash 5.2 "Arrays", `declare`.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import pairwise

from planner.reading.passage import Passage
from planner.reading.scopes import Variables
from planner.reading.shell_blocks import (
    DO,
    FOR,
    FUNCTION,
    ends_of_blocks,
    lines_of,
    numbers_of,
)
from planner.reading.variables import Over, Until
from planner.reading.words import Word, escaped, read_document, read_word
from planner.values import frozen

__all__ = ["Command", "Word", "commands_of"]

_PLAIN_WORD = re.compile(r"[^\s\\'\"$`|&;<>()#{}]+(?=\s|\Z)")
_BLANK = re.compile(r"(?:[ \t\r\f\v]|[\\^`][ \t]*\r?\n)+")
"""Blanks and continued lines, those of Windows' two shells included."""
_FRAME = re.compile(
    r"^[ \t]*(?:```[^\n`]*|~~~[^\n]*|ExecStart=[-@:+!]*|Environment=)", re.MULTILINE
)
"""What frames a command in Markdown, or begins one in a unit of systemd."""
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"\d?(?:&>>?|>>|>&|<<<|<<-?|<&|[<>])|&&|\|\||;;|[|&;()]|\n")
_TO_FILE = re.compile(r"1?>>?\Z|&>>?\Z")
_REDIRECTION = re.compile(r"\d?(?:&>>?|>>|>&|<<<|<<-?|<&|[<>])\Z")
_NEXT = re.compile(r"\s*(?:sudo\s+)?(?P<name>[^\s|&;]+)")
_ASSIGNS = (
    *("export", "declare", "typeset", "local", "readonly", "set", ":"),
    *("ENV", "ARG"),
)
"""What begins a line that sets variables: of a shell, of a Dockerfile."""
_OPENS = ("if", "for", "while", "until", "case", "select", "{")
_CLOSES = ("fi", "done", "esac", "}")
"""Words around commands that may not run, or run again."""
_CONDITION = re.compile(r"\|\||(?:\[|\[\[|test|\(\() &&")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_ARRAY = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<more>\+?)=\(")
_ALL = re.compile(
    r'(?P<quote>"?)\$(?:(?P<plain>[@*])|\{(?P<name>[A-Za-z_]\w*(?=\[)|[@*])(?:\[[@*]\])?'
    r"(?::?[-+](?:\"?\$\{(?P=name)(?:\[[@*]\])?\}\"?)?)?\})(?P=quote)(?=[\s;&|)<>]|\Z)"
)
"""All items of an array, or all arguments, as words of their own."""
_FORGOTTEN = re.compile(r"(?:\s|#[^\n]*\n)*--?[A-Za-z]")
"""A line that goes on with flags although the one before has no backslash."""
_MOST_TURNS, _MOST_CALLS = 64, 6
_FROM_OUTSIDE = re.compile(r"\$\{?(?:[0-9@*#]|OPTARG|REPLY|[A-Za-z_]\w*:?\?)")
"""What whoever starts the script may give in place of what the script says."""


@frozen
class Command:
    """A simple command: variables set before it, and its words."""

    words: tuple[Word, ...]
    assigned: Mapping[str, Word] = field(default_factory=dict)
    """Variables set for it, by itself or earlier in the text; the last value."""
    into: str = ""
    """The file or the program that what it prints goes to."""
    documents: tuple[Passage, ...] = ()
    """Here-documents that it reads."""


class _Reader:
    """Reads the words of one text from its start to its end."""

    def __init__(
        self,
        passage: Passage,
        known: Mapping[str, str | Word],
        arguments: Sequence[Word] | None,
    ) -> None:
        self.passage = passage
        self.text = passage.text
        self.at = 0
        self.scope = Variables(passage, known, arguments)
        self.depth = 0
        self.after = ""
        """What begins the command before, with the operator behind it."""
        self.functions: dict[str, tuple[int, int]] = {}
        self.called: set[str] = set()
        self.num_calls = 0
        self.run: list[Passage] = []
        self.awaited: list[tuple[str, bool]] = []
        """Here-documents that begin with the next line: their ends, and if quoted."""

    @cached_property
    def ends(self) -> Mapping[int, int]:
        """Where the block ends whose body begins at a place."""
        return ends_of_blocks(self.text)

    @cached_property
    def lines(self) -> Mapping[str, Sequence[int]]:
        """Where lines begin, by their words."""
        return lines_of(self.text)

    def commands(self) -> Iterator[Command]:
        """Yield the commands in order; of functions where they are called."""
        yield from self._until(len(self.text))
        uncalled: list[list[Command]] = []
        for name in reversed(self.functions):
            if name not in self.called:
                self.scope.arguments = None
                uncalled.append(list(self._body(*self.functions[name])))
        for found in reversed(uncalled):
            yield from found

    def _until(self, end: int) -> Iterator[Command]:
        words: list[Word] = []
        into = ""
        while self.at < end:
            self._skip_blank()
            block = None if words else self._block()
            if block is not None:
                yield from block
                continue
            operator = self._operator()
            if operator is None and self.at < end:
                words += self._words()
                continue
            if operator is not None and _REDIRECTION.match(operator):
                into = self._redirected(operator) or into
                continue
            is_line = operator == "\n"
            is_open = is_line and words and not self.awaited
            if is_open and _FORGOTTEN.match(self.text, self.at):
                continue
            if operator == "|" and (then := _NEXT.match(self.text, self.at)):
                into = then["name"]
            yield from self._ended(words, into, self._documents() if is_line else ())
            first = words[0].value if words else ""
            self.after = f"{first} &&" if operator == "&&" else operator or ""
            words, into = [], ""
        yield from self._ended(words, into, ())

    def _redirected(self, operator: str) -> str:
        """Read what stands behind a redirection; return the file written to."""
        self._skip_blank()
        if self.at >= len(self.text) or self._operator() is not None:
            return ""
        start = self.at
        word = self._words()
        if operator.startswith("<<") and operator != "<<<":
            written = self.text[start : self.at]
            end = re.sub(r"[\\'\"]", "", written)
            self.awaited.append((end, end != written))
        return word[0].value if word and _TO_FILE.match(operator) else ""

    def _documents(self) -> tuple[Passage, ...]:
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

    def _block(self) -> Iterator[Command] | None:
        """Return the commands of a function or a loop that begins here."""
        function = FUNCTION.match(self.text, self.at)
        if function is not None and function.end() in self.ends:
            name = function["named"] or function["name"]
            self.functions[name] = (function.end(), self.ends[function.end()])
            self.called.discard(name)
            self.at = self.ends[function.end()] + len("}")
            return iter(())
        loop = FOR.match(self.text, self.at)
        return None if loop is None else self._loop(loop)

    def _loop(self, loop: re.Match[str]) -> Iterator[Command] | None:
        self.at = loop.end()
        items = list(self._items())
        begun = DO.match(self.text, self.at)
        start = -1 if begun is None else begun.end()
        if start not in self.ends:
            self.at = loop.start()
            return None
        end = self.ends[start]
        is_long = len(items) > _MOST_TURNS
        self.at = end + len("done")
        return self._turns(loop["name"], items[:1] if is_long else items, start, end)

    def _items(self) -> Iterator[Word]:
        """Yield what a loop goes through."""
        while self.at < len(self.text):
            self._skip_blank()
            if self._operator() is not None:
                return
            for word in self._words():
                yield from numbers_of(word)

    def _turns(
        self, name: str, items: Sequence[Word], start: int, end: int
    ) -> Iterator[Command]:
        after = self.at
        for item in items:
            self.scope.set(name, item)
            self.depth += 1
            yield from self._body(start, end)
            self.depth -= 1
        self.at = after

    def _body(self, start: int, end: int) -> Iterator[Command]:
        """Yield the commands of a stretch of the text, which is read again."""
        self.passage.expansion.add((end - start) // 16)
        before, self.at = self.at, start
        yield from self._until(end)
        self.at = before

    def _call(self, words: Sequence[Word]) -> Iterator[Command]:
        """Yield the commands of a function with its arguments."""
        name = words[0].value
        self.called.add(name)
        before, self.scope.arguments = self.scope.arguments, words[1:]
        self.num_calls += 1
        yield from self._body(*self.functions[name])
        self.num_calls -= 1
        self.scope.arguments = before

    def _ended(
        self, words: Sequence[Word], into: str, documents: tuple[Passage, ...]
    ) -> Iterator[Command]:
        begins = words[0].value if words else ""
        self.depth += (begins in _OPENS) - (begins in _CLOSES)
        is_kept = begins in _ASSIGNS
        own, first = self._set_by(words, 1 if is_kept else 0)
        if begins in ("set", "shift"):
            self._set_arguments(words)
        if begins == "ENV" and not own:  # ENV NAME value
            own = {name.value: value for name, value in pairwise(words[1:3])}
        if is_kept or first == len(words):
            self._keep(own)
        elif words[first].value in self.functions and self.num_calls < _MOST_CALLS:
            yield from self._call(words[first:])
        else:
            yield Command(
                words=tuple(words[first:]),
                assigned=Over(own, Until(self.scope.history, self.scope.time)),
                into=into,
                documents=documents,
            )
        yield from self._substituted()

    def _set_by(self, words: Sequence[Word], first: int) -> tuple[dict[str, Word], int]:
        """Return the variables that words set, and which word is none of those."""
        own: dict[str, Word] = {}
        is_kept = first > 0
        for at, word in enumerate(words[first:], first):
            match = _ASSIGNED.match(word.value)
            if match is not None:
                value = word.part(match.end())
                own[match[1]] = (
                    self.scope.appended(match[1], value) if match[2] else value
                )
            elif not is_kept or not word.value.startswith("-"):
                return own, at
        return own, len(words)

    def _set_arguments(self, words: Sequence[Word]) -> None:
        """Read `set -- a b` and `shift 2`."""
        given = [word.value for word in words[1:2]]
        if words[0].value == "shift" and self.scope.arguments is not None:
            number = int(given[0]) if given and given[0].isdecimal() else 1
            self.scope.arguments = self.scope.arguments[number:]
        elif given == ["--"]:
            self.scope.arguments = words[2:]

    def _substituted(self) -> Iterator[Command]:
        """Yield the commands of `$(...)` in the words that were read."""
        found, self.run = self.run, []
        for passage in found:
            reader = _Reader(passage, self.scope.all, self.scope.arguments)
            yield from reader.commands()

    def _keep(self, own: Mapping[str, Word]) -> None:
        """Set variables for all that follows."""
        is_optional = self.depth > 0 or bool(_CONDITION.match(self.after))
        given = [
            name
            for name, word in own.items()
            if is_optional and any(map(_FROM_OUTSIDE.match, word.variables))
        ]
        told = {
            n: w for n, w in own.items() if n not in given or not self.scope.words(n)
        }
        self.scope.keep(told, is_optional=is_optional)

    def _skip_blank(self) -> None:
        while match := (
            _BLANK.match(self.text, self.at) or _COMMENT.match(self.text, self.at)
        ):
            self.at = match.end()

    def _operator(self) -> str | None:
        match = _OPERATOR.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match[0]

    def _words(self) -> list[Word]:
        """Return a word; or those of a variable without quotes, or of an array."""
        plain = _PLAIN_WORD.match(self.text, self.at)
        if plain is not None:
            start, self.at = plain.span()
            return [self._plain(start)]
        if array := _ARRAY.match(self.text, self.at):
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
        self.passage.expansion.add(sum(len(one.value) for one in items))
        return [replace(one, via=built.word) for one in items]

    def _array(self, array: re.Match[str]) -> None:
        """Read `NAME=(...)`."""
        self.at = array.end()
        found: list[Word] = []
        while self.at < len(self.text):
            self._skip_blank()
            if (operator := self._operator()) is None:
                found += self._words()
            elif operator == ")":
                break
        before = self.scope.words(array["name"]) if array["more"] else None
        self.scope.arrays[array["name"]] = [*(before or ()), *found]

    def _plain(self, start: int) -> Word:
        """Return a word without quotes, escapes and variables: most of them."""
        outer = self.passage
        inner = outer.part(start, self.at)
        word = Word(
            passage=inner,
            start=outer.places[start],
            end=outer.places[self.at],
            write=lambda value: outer.encode(shlex.quote(value)),
            variables=inner.unknown,
        )
        if len(inner.through) > len(outer.through):  # a name that is filled in
            place = inner.places[0], inner.places[-1]
            return replace(
                word, start=place[0], end=place[1], write=inner.encode, via=word
            )
        escapes = replace(inner, encode=lambda new: outer.encode(escaped(new)))
        return replace(word, passage=escapes)


def commands_of(
    passage: Passage,
    known: Mapping[str, str | Word] | None = None,
    arguments: Sequence[Word] | None = None,
) -> list[Command]:
    """Return the simple commands of a shell text.

    Args:
        passage: the text.
        known: variables that are set around it.
        arguments: those of the text itself; None where they are not told.

    >>> (command,) = commands_of(Passage.whole("A=1 vllm serve 'org/m' # why"))
    >>> [word.value for word in command.words], command.assigned["A"].value
    (['vllm', 'serve', 'org/m'], '1')
    """
    plain = _FRAME.sub(lambda match: " " * len(match[0]), passage.text)
    page = replace(passage, text=plain)
    return list(_Reader(page, known or {}, arguments).commands())
