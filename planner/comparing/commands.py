"""What changes in the `vllm serve` line from one plan to another, word by word."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from html import escape
from itertools import zip_longest


class Change(StrEnum):
    """What becomes of a word."""

    KEPT = "kept"
    REMOVED = "removed"
    ADDED = "added"


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word of a command line, quoted as a shell wants it."""

    text: str
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDiff:
    """A command line that becomes another."""

    before: str
    """Name of the first plan."""
    after: str
    """Name of the other."""
    words: tuple[Word, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        return all(word.change is Change.KEPT for word in self.words)

    def __str__(self) -> str:
        """Write the line with removed words as [-word-], added ones as {+word+}."""
        marks = {Change.KEPT: "{}", Change.REMOVED: "[-{}-]", Change.ADDED: "{{+{}+}}"}
        return " ".join(marks[word.change].format(word.text) for word in self.words)

    def html(self) -> str:
        """Write the line with removed words in `del`, added ones in `ins`."""
        tags = {
            Change.KEPT: "{}",
            Change.REMOVED: "<del>{}</del>",
            Change.ADDED: "<ins>{}</ins>",
        }
        return " ".join(
            tags[word.change].format(escape(word.text)) for word in self.words
        )


def command_diff(before: tuple[str, str], after: tuple[str, str]) -> CommandDiff:
    """Return what changes; both are a plan's name and its command line.

    >>> str(command_diff(("A", "serve m --a 1 --b"), ("B", "serve m --a 2")))
    'serve m --a [-1-] {+2+} [---b-]'
    """
    old, new = _options(before[1]), _options(after[1])
    return CommandDiff(before=before[0], after=after[0], words=tuple(_words(old, new)))


def _options(line: str) -> list[list[str]]:
    """Cut a line into options, each with its values; the command itself comes first."""
    options: list[list[str]] = []
    for word in shlex.split(line):
        if word.startswith("--") or not options:
            options.append([])
        options[-1].append(shlex.quote(word))
    return options


def _words(old: list[list[str]], new: list[list[str]]) -> Iterator[Word]:
    """Align options by their names; a value is compared with the same option's only."""
    matcher = SequenceMatcher(
        None, [option[0] for option in old], [option[0] for option in new], False
    )
    for what, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if what == "equal":
            pairs = zip(old[old_from:old_to], new[new_from:new_to], strict=True)
            for one, other in pairs:
                yield from _aligned(one, other)
        else:
            yield from _all(old[old_from:old_to], Change.REMOVED)
            yield from _all(new[new_from:new_to], Change.ADDED)


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[Word]:
    """Compare two options of one name, value by value."""
    for one, other in zip_longest(old, new):
        if one == other:
            yield Word(text=one, change=Change.KEPT)
            continue
        if one is not None:
            yield Word(text=one, change=Change.REMOVED)
        if other is not None:
            yield Word(text=other, change=Change.ADDED)


def _all(options: Sequence[Sequence[str]], change: Change) -> Iterator[Word]:
    for option in options:
        for text in option:
            yield Word(text=text, change=change)
