"""The simple commands of a shell text: words with their places, never run.

Covers what people paste: quotes, escapes, line continuations (also with the backslash
forgotten), comments, variables and arrays assigned in the same text, functions, loops
over a list, here-documents, and several commands in one.

Source: POSIX.1-2017 `XCU 2 Shell Command Language`; Bash 5.2 "Arrays", `declare`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from itertools import pairwise

from planner.reading.passage import Passage
from planner.reading.scripts.blocks import (
    DO,
    FOR,
    FUNCTION,
    PATTERN,
    ends_of_blocks,
    turns_of,
)
from planner.reading.scripts.conditions import Branches, holds, together
from planner.reading.scripts.lexing import Lexer
from planner.reading.scripts.variables import Over, Until, Variables
from planner.reading.scripts.word import Word
from planner.values import frozen

__all__ = ["Command", "Word", "commands_of"]

_FRAME = re.compile(
    r"^[ \t]*(?:```[^\n`]*|~~~[^\n]*|ExecStart=[-@:+!]*|Environment=)", re.MULTILINE
)
"""What frames a command in Markdown, or begins one in a unit of systemd."""
_REDIRECTION = re.compile(r"\d?(?:&>>?|>>|>&|<<<|<<-?|<&|[<>])\Z")
_EMPTY = re.compile(r"(?:[ \t\r\f\v]*\n)+")
_NEXT = re.compile(r"\s*(?:sudo\s+)?(?P<name>[^\n|&;]+)")
_ASSIGNS = (
    *("export", "declare", "typeset", "local", "readonly", "set", ":"),
    *("ENV", "ARG"),
)
"""What begins a line that sets variables: of a shell, of a Dockerfile."""
_OPENS = ("if", "for", "while", "until", "case", "select", "{")
_CLOSES = ("fi", "done", "esac", "}")
"""Words around commands that may not run, or run again."""
_LEADS = ("then", "else", "do", "{", "!", "time")
"""Words before a command that may set variables."""
_JOINS = ("&&", "||")
_CASE = ["case", "WORD", "in"]
_CONDITION = re.compile(r"\|\||(?:\[|\[\[|test|\(\() &&")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=")
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


class _Reader(Lexer):
    """Reads the commands of one text from its start to its end."""

    def __init__(
        self,
        passage: Passage,
        known: Mapping[str, str | Word],
        arguments: Sequence[Word] | None,
    ) -> None:
        super().__init__(passage, Variables(passage, known, arguments))
        self.depth = 0
        self.branches = Branches()
        self.begun: tuple[str, bool | None, str] | None = None
        """A condition that goes on: of what, whether it holds so far, what joins."""
        self.held: bool | None = None
        """Whether the command before `&&` or `||` is known to have succeeded."""
        self.after = ""
        """What begins the command before, with the operator behind it."""
        self.functions: dict[str, tuple[int, int]] = {}
        self.called: set[str] = set()
        self.num_calls = 0

    @cached_property
    def ends(self) -> Mapping[int, int]:
        """Where the block ends whose body begins at a place."""
        return ends_of_blocks(self.text)

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
            self.skip_blank()
            block = None if words else self._block()
            if block is not None:
                yield from block
                continue
            operator = self.operator()
            if operator is None:
                words += self.words() if self.at < end else []
                words = [] if self._is_case(words) else words
            elif _REDIRECTION.match(operator):
                into = self.redirected(operator) or into
            elif operator != "\n" or not words or not self._goes_on():
                yield from self._ended(words, operator, into)
                words, into = [], ""
        yield from self._ended(words, "", into)

    def _goes_on(self) -> bool:
        """Return whether the next line has flags of the same command."""
        return not self.awaited and bool(_FORGOTTEN.match(self.text, self.at))

    def may_set(self, name: str) -> bool:
        """Return whether a variable is set here, by what the text tells.

        In a branch that does not run it is set for the branch alone.
        """
        if self.held is (self.after[-2:] == "||") and self.after[-2:] in _JOINS:
            return False
        if not self.branches.is_run:
            self.branches.set_back_later(name, partial(self.scope.saved, name))
        return True

    def _is_case(self, words: list[Word]) -> bool:
        """Begin `case WORD in`, once these are its words."""
        if len(words) != len(_CASE) or [words[0].value, words[2].value] != _CASE[::2]:
            return False
        self.depth += 1
        self.branches.begin_case(words[1])
        self._pattern()
        return True

    def _pattern(self) -> None:
        match = PATTERN.match(self.text, self.at)
        if match is not None and self.branches.is_in_case:
            self.at = match.end()
            self.branches.turn_to(match["patterns"])

    def _branch(self, words: Sequence[Word], operator: str) -> None:
        """Read what begins, parts and ends branches."""
        begins = words[0].value if words else ""
        self.depth += (begins in _OPENS) - (begins in _CLOSES)
        if begins in ("if", "elif") or self.begun:
            self._condition(words, operator)
        elif begins == "else":
            self.branches.otherwise()
        elif begins == "fi":
            self.branches.end()
        elif begins == "esac":
            self.branches.end_case()

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
            self.skip_blank()
            if self.operator() is not None:
                return
            for word in self.words():
                yield from turns_of(word, self.scope.keys)

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
        self.passage.expansion.add(end - start)
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

    def _condition(self, words: Sequence[Word], operator: str) -> None:
        """Read a condition of `if` up to its end, with `&&` and `||` in it."""
        if self.begun:
            name, before, joined = self.begun
            condition = together(before, joined, holds(words))
        else:
            name, condition = words[0].value, holds(words[1:])
        self.begun = (name, condition, operator) if operator in _JOINS else None
        if self.begun is None:
            begin = self.branches.begin if name == "if" else self.branches.turn
            begin(condition)

    def _ended(
        self, words: Sequence[Word], operator: str, into: str
    ) -> Iterator[Command]:
        """Yield the commands that words make up to an operator."""
        if operator == "|" and (then := _NEXT.match(self.text, self.at)):
            into = then["name"]
        documents = self.documents() if operator == "\n" else ()
        self._branch(words, operator)
        first = words[0].value if words else ""
        if words:
            yield from self._commands(words, into, documents)
        yield from self._substituted()
        self.held = holds(words) if operator in _JOINS else None
        self.after = f"{first} &&" if operator == "&&" else operator
        if operator == ";;":
            self._pattern()
        elif operator == "\n" and (lines := _EMPTY.match(self.text, self.at)):
            self.at = lines.end()

    def _commands(
        self, words: Sequence[Word], into: str, documents: tuple[Passage, ...]
    ) -> Iterator[Command]:
        while words and words[0].value in _LEADS:
            words = words[1:]
        begins = words[0].value if words else ""
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
        own = {name: word for name, word in own.items() if self.may_set(name)}
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
