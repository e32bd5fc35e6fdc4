"""The simple commands of a shell text: words with their places, never run.

Covers what people paste: quotes, escapes, line continuations (also with the backslash
forgotten), comments, variables assigned in the same text, and several commands in one.

Source: POSIX.1-2017 `XCU 2 Shell Command Language`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from planner.reading.passage import Edit, Expansion, Passage
from planner.reading.variables import Over, Until
from planner.values import frozen

_PLAIN = re.compile(r"[^\s\\'\"$`|&;<>()#]+")
_PLAIN_WORD = re.compile(r"[^\s\\'\"$`|&;<>()#]+(?=\s|\Z)")
_BLANK = re.compile(r"(?:[ \t\r\f\v]|[\\^`][ \t]*\r?\n)+")
"""Blanks and continued lines, those of Windows' two shells included."""
_FRAME = re.compile(
    r"^[ \t]*(?:```[^\n`]*|~~~[^\n]*|ExecStart=[-@:+!]*|Environment=)", re.MULTILINE
)
"""What frames a command in Markdown, or begins one in a unit of systemd."""
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"\d?(?:&>>?|>>|>&|<<<?-?|<&|[<>])|&&|\|\||;;|[|&;()]|\n")
_TO_FILE = re.compile(r"1?>>?\Z|&>>?\Z")
_REDIRECTION = re.compile(r"\d?(?:&>>?|>>|>&|<<<?-?|<&|[<>])\Z")
_VARIABLE = re.compile(
    r"\$(?:(?P<plain>[A-Za-z_]\w*)"
    r"|\{(?P<braced>[A-Za-z_]\w*)(?::?-(?P<default>[^{}$`]*))?\})"
)
_SUBSTITUTION = re.compile(r"\$\([^()]*(?:\([^()]*\)[^()]*)*\)|`[^`]*`|\$\S?")
_ESCAPED_IN_DOUBLE = frozenset('"\\$`\n')
_ASSIGNS = ("export", "declare", "set", "ENV", "ARG")
"""What begins a line that sets variables: of a shell, of a Dockerfile."""
_OPENS = ("if", "for", "while", "until", "case", "select", "{")
_CLOSES = ("fi", "done", "esac", "}")
"""Words around commands that may not run, or run again."""
_CONDITION = re.compile(r"\|\||(?:\[|\[\[|test) &&")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_SPLIT = re.compile(r"(?=\s*\S+\s+\S)[^\\'\"`$|&;<>()*?]*")
"""A value that is several words, without quotes, operators and patterns."""
_FORGOTTEN = re.compile(r"(?:\s|#[^\n]*\n)*--?[A-Za-z]")
"""A line that goes on with flags although the one before has no backslash."""


@frozen
class Word:
    """One word of a command, or one item of a list of words."""

    passage: Passage
    """What the shell passes on, for commands inside of it."""
    start: int
    end: int
    """Its place in the whole text, quotes included."""
    write: Callable[[str], str] = shlex.quote
    """Writes another word in this place."""
    variables: tuple[str, ...] = ()
    """Variables and substitutions whose values the text does not tell."""
    origin: Passage | None = None
    """Where the variable is assigned that the whole word is."""
    via: Word | None = None
    """The variable in the command that the word comes from."""

    @property
    def value(self) -> str:
        """The word as the program gets it."""
        return self.passage.text

    def replaced(self, value: str) -> Edit:
        """Return the edit that writes another word here."""
        return Edit(start=self.start, end=self.end, text=self.write(value))

    def part(self, start: int, end: int | None = None) -> Word:
        """Return a part of the word, for an edit of that part alone."""
        inner = self.passage.part(start, len(self.value) if end is None else end)
        return Word(
            passage=inner,
            start=inner.places[0],
            end=inner.places[-1],
            write=inner.encode,
            variables=self.variables if "$" in inner.text or "`" in inner.text else (),
        )


@frozen
class Command:
    """A simple command: variables set before it, and its words."""

    words: tuple[Word, ...]
    assigned: Mapping[str, Word] = field(default_factory=dict)
    """Variables set for it, by itself or earlier in the text; the last value."""
    is_sent: bool = False
    """Whether what it prints goes to a file or to another program."""


class _Reader:
    """Reads the words of one text from its start to its end."""

    def __init__(self, passage: Passage, known: Mapping[str, str]) -> None:
        self.passage = passage
        self.text = passage.text
        self.at = 0
        self.own: dict[str, str] = {}
        self.known = Over(self.own, known)
        self.history: dict[str, list[tuple[int, Word]]] = {}
        self.time = 0
        self.depth = 0
        self.optional: set[str] = set()
        """Variables that were last set on a condition."""
        self.after = ""
        """What begins the command before, with the operator behind it."""

    def commands(self) -> Iterator[Command]:
        """Yield the commands in order."""
        words: list[Word] = []
        is_sent = False
        while self.at < len(self.text):
            self._skip_blank()
            operator = self._operator()
            if operator is None and self.at < len(self.text):
                words += self._words()
                continue
            if operator is not None and _REDIRECTION.match(operator):
                is_sent |= bool(_TO_FILE.match(operator))
                self._skip_blank()
                if self.at < len(self.text) and self._operator() is None:
                    self._word()
                continue
            if operator == "\n" and words and _FORGOTTEN.match(self.text, self.at):
                continue
            yield from self._ended(words, is_sent=is_sent or operator == "|")
            first = words[0].value if words else ""
            self.after = f"{first} &&" if operator == "&&" else operator or ""
            words, is_sent = [], False
        yield from self._ended(words, is_sent=is_sent)

    def _ended(self, words: Sequence[Word], *, is_sent: bool) -> Iterator[Command]:
        own: dict[str, Word] = {}
        begins = words[0].value if words else ""
        self.depth += (begins in _OPENS) - (begins in _CLOSES)
        is_kept = bool(words) and words[0].value in _ASSIGNS
        first = 1 if is_kept else 0
        while first < len(words) and (match := _ASSIGNED.match(words[first].value)):
            word = words[first].part(match.end())
            own[match[1]] = self._appended(match[1], word) if match[2] else word
            first += 1
        if is_kept or first == len(words):
            self._keep(own)
        if first < len(words) and not is_kept:
            earlier = Until(self.history, self.time)
            yield Command(
                words=tuple(words[first:]),
                assigned=Over(own, earlier),
                is_sent=is_sent,
            )

    def _appended(self, name: str, word: Word) -> Word:
        """Return a word behind what its variable was: `A+=" --flag"`."""
        if name not in self.history:
            return word
        before, after = self.history[name][-1][1].passage, word.passage
        self.passage.expansion.add(len(before.text))
        # Where the two meet is a blank: the other words keep their own ends.
        meet = 1 if after.text[:1].isspace() else 0
        places = [*before.places[: len(before.text) + meet], *after.places[meet:]]
        if not meet and before.text[-1:].strip():  # a word that is set in two places
            places = [after.places[0]] * len(places)
        text = before.text + after.text
        return replace(word, passage=replace(after, text=text, places=places))

    def _keep(self, own: Mapping[str, Word]) -> None:
        """Set variables for all that follows."""
        self.time += 1
        is_optional = self.depth > 0 or bool(_CONDITION.match(self.after))
        (self.optional.update if is_optional else self.optional.difference_update)(own)
        for name, word in own.items():
            self.history.setdefault(name, []).append((self.time, word))
            self.own[name] = word.value

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
        """Return a word; or those of a variable without quotes."""
        start = self.at
        word = self._word()
        is_variable = _VARIABLE.fullmatch(self.text, start, self.at)
        if word.variables or not is_variable or not _SPLIT.fullmatch(word.value):
            return [word]
        passage = word.origin or word.passage
        return [
            Word(
                passage=(one := passage.part(*match.span())),
                start=one.places[0],
                end=one.places[-1],
                write=one.encode,
                via=word,
            )
            for match in re.finditer(r"\S+", word.value)
        ]

    def _word(self) -> Word:
        start = self.at
        plain = _PLAIN_WORD.match(self.text, start)
        if plain is not None:
            self.at = plain.end()
            return self._plain(start)
        built = _Built(self.known, self.passage.expansion)
        while self.at < len(self.text):
            taken = built.take(self.text, self.at)
            if taken == self.at:
                break
            self.at = taken
        if self.at == start:  # nothing that a word begins with: one character of it
            built.add(self.text[start], start)
            self.at += 1
        built.places.append(self.at if built.is_open_ended else built.end)
        inner = self.passage.inside(
            "".join(built.pieces), built.places, built.escape or _escaped
        )
        outer = self.passage
        return Word(
            passage=inner,
            start=outer.places[start],
            end=outer.places[self.at],
            write=lambda value: outer.encode(shlex.quote(value)),
            variables=tuple(built.variables),
            origin=self._origin(built),
        )

    def _origin(self, built: _Built) -> Passage | None:
        """Return where a variable is set in any case, if it is all that a word has."""
        is_certain = built.sole in self.history and built.sole not in self.optional
        if len(built.pieces) != 1 or not is_certain:
            return None
        _, assigned = self.history[built.sole][-1]
        return assigned.passage

    def _plain(self, start: int) -> Word:
        """Return a word without quotes, escapes and variables: most of them."""
        outer = self.passage
        inner = outer.part(start, self.at)
        return Word(
            passage=replace(inner, encode=lambda new: outer.encode(_escaped(new))),
            start=inner.places[0],
            end=inner.places[-1],
            write=lambda value: outer.encode(shlex.quote(value)),
        )


class _Built:
    """The characters of a word while it is read."""

    def __init__(self, known: Mapping[str, str], expansion: Expansion) -> None:
        self.known = known
        self.expansion = expansion
        self.pieces: list[str] = []
        self.places: list[int] = []
        self.variables: list[str] = []
        self.escape: Callable[[str], str] | None = None
        self.end = 0
        self.is_open_ended = True
        self.sole = ""
        """The variable that was put in last."""

    def add(self, text: str, at: int) -> None:
        """Append characters that stand at `at`."""
        self.pieces.append(text)
        self.places += range(at, at + len(text))
        self.is_open_ended = True

    def put_in(self, name: str, value: str, at: int) -> None:
        """Append what a variable at `at` stands for."""
        self.sole = name
        self.expansion.add(len(value))
        self.pieces.append(value)
        self.places += [at] * len(value)
        self.is_open_ended = True

    def take(self, text: str, at: int) -> int:
        """Read a stretch of the word; `at` itself where the word ends."""
        if match := _PLAIN.match(text, at):
            self.add(match[0], at)
            return match.end()
        character = text[at]
        if character in "'\"":
            return self._quoted(text, at, character)
        if character in "$`":
            return self._variable(text, at)
        is_escape = character == "\\" and at + 1 < len(text)
        if is_escape and not text.startswith(("\\\n", "\\\r\n"), at):
            self.add(text[at + 1], at + 1)
            return at + 2
        if character == "#" and self.pieces:
            self.add("#", at)
            return at + 1
        return at

    def _quoted(self, text: str, at: int, quote: str) -> int:
        is_first = "".join(self.pieces[:2])[-1:] in ("", "=")  # the quote of a value
        at += 1
        while at < len(text) and text[at] != quote:
            following = text[at + 1 : at + 2]
            if quote == '"' and text[at] == "\\" and following in _ESCAPED_IN_DOUBLE:
                if following != "\n":
                    self.add(following, at + 1)
                at += 2
                continue
            if quote == '"' and text[at] in "$`":
                at = self._variable(text, at)
                continue
            end = _stretch(text, at, quote)
            self.add(text[at:end], at)
            at = end
        if is_first:
            self.escape = _in_single if quote == "'" else _in_double
            self.end, self.is_open_ended = at, False
        return min(at + 1, len(text))

    def _variable(self, text: str, at: int) -> int:
        match = _VARIABLE.match(text, at)
        if match is None:
            match = _SUBSTITUTION.match(text, at)
            end = at + 1 if match is None else match.end()
            self.variables.append(text[at:end])
            self.add(text[at:end], at)
            return end
        name = match["plain"] or match["braced"]
        default: str | None = match["default"]
        value = self.known.get(name, default)
        if value is None:
            self.variables.append(match[0])
            self.add(match[0], at)
        else:
            self.put_in(name, value, at)
        return match.end()


def _stretch(text: str, at: int, quote: str) -> int:
    special = "'" if quote == "'" else '"\\$`'
    end = at + 1
    while end < len(text) and text[end] not in special:
        end += 1
    return end


def _escaped(value: str) -> str:
    return re.sub(r"([^\w@%+=:,./-])", r"\\\1", value)


def _in_single(value: str) -> str:
    return value.replace("'", "'\\''")


def _in_double(value: str) -> str:
    return re.sub(r'(["\\$`])', r"\\\1", value)


def commands_of(
    passage: Passage, known: Mapping[str, str] | None = None
) -> list[Command]:
    """Return the simple commands of a shell text.

    >>> (command,) = commands_of(Passage.whole("A=1 vllm serve 'org/m' # why"))
    >>> [word.value for word in command.words], command.assigned["A"].value
    (['vllm', 'serve', 'org/m'], '1')
    """
    plain = _FRAME.sub(lambda match: " " * len(match[0]), passage.text)
    return list(_Reader(replace(passage, text=plain), known or {}).commands())
