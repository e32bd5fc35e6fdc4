"""One word of a command with its places in the whole text, and how one is written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from planner.reading.passage import Edit, Passage, Span
from planner.values import frozen


@frozen
class Word:
    """One word of a command, or one item of a list of words."""

    passage: Passage
    """What the shell passes on, for commands inside of it; where it is written."""
    start: int
    end: int
    """Its place in the whole text, quotes included."""
    write: Callable[[str], str] = shlex.quote
    """Writes another word in this place."""
    variables: tuple[str, ...] = ()
    """Variables and substitutions whose values the text does not tell."""
    via: Word | None = None
    """The variable in the command that the word comes from."""

    @property
    def value(self) -> str:
        """The word as the program gets it."""
        return self.passage.text

    @property
    def at(self) -> tuple[Span, ...]:
        """The characters of the whole text that it comes from."""
        via = () if self.via is None else ((self.via.start, self.via.end),)
        return tuple(dict.fromkeys(((self.start, self.end), *via, *self.passage.at)))

    def replaced(self, value: str) -> Edit:
        """Return the edit that writes another word here."""
        return Edit(start=self.start, end=self.end, text=self.write(value))

    def part(self, start: int, end: int | None = None) -> Word:
        """Return a part of the word, for an edit of that part alone."""
        inner = self.passage.part(start, len(self.value) if end is None else end)
        is_named = len(inner.through) > len(self.passage.through)
        return Word(
            passage=inner,
            start=inner.places[0],
            end=inner.places[-1],
            write=inner.encode,
            variables=tuple(name for name in self.variables if name in inner.text),
            via=self if is_named else self.via,
        )

    def resolved(self) -> Word:
        """Return the word where it is written, if it is one variable as a whole."""
        if not self.passage.pieces:
            return self
        found = self.part(0)
        return self if found.via is self.via else found


def escaped(value: str) -> str:
    """Write a value without quotes."""
    return re.sub(r"([^\w@%+=:,./-])", r"\\\1", value)


def in_document(value: str) -> str:
    """Write a value into a here-document."""
    return re.sub(r"([\\$`])", r"\\\1", value)


def in_single(value: str) -> str:
    """Write a value between single quotes."""
    return value.replace("'", "'\\''")


def in_double(value: str) -> str:
    """Write a value between double quotes."""
    return re.sub(r'(["\\$`])', r"\\\1", value)
