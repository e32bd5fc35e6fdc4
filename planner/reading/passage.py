"""A stretch of a text as its reader sees it, and the edits that change it in place.

A command can stand in a quoted string of another command, and that in a manifest. Each
layer is a `Passage`: its text without quotes and escapes, where each character stands
in the whole text, and how to write new characters there. An edit of the innermost
layer therefore changes its own place in the whole text, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field

from planner.errors import PlannerError
from planner.values import frozen

MOST_EXPANDED = 1 << 18
"""Characters that may come into one text for others: four times the longest text."""
_LONGEST_LINE = 120


def _as_it_is(text: str) -> str:
    return text


@frozen
class Edit:
    """Characters `start` to `end` of the whole text, replaced."""

    start: int
    end: int
    text: str


class Expansion:
    """Counts what stands for something else in one text, wherever it is put in."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.num_characters = 0

    @property
    def is_too_large(self) -> bool:
        """Whether more was put in than is read."""
        return self.num_characters > MOST_EXPANDED

    def add(self, characters: int) -> None:
        """Count characters before they are put in.

        Raises:
            PlannerError: where there are more than `MOST_EXPANDED` in one text.
        """
        self.num_characters += characters
        if self.is_too_large:
            raise PlannerError(
                "With its variables, anchors and names put in, the text grows by more "
                f"than {MOST_EXPANDED:,} characters, the most that is read. Write the "
                "start of vLLM out."
            )


@frozen
class Passage:
    """Text as its reader sees it.

    >>> Passage.whole("vllm serve").part(5, 10).text
    'serve'
    """

    text: str
    places: Sequence[int]
    """Where each character stands in the whole text, and where the last one ends."""
    encode: Callable[[str], str] = _as_it_is
    """Writes characters so that this layer's reader reads them."""
    expansion: Expansion = field(default_factory=Expansion, compare=False, repr=False)
    """Of the whole text: the same in each passage of it."""

    @classmethod
    def whole(cls, text: str) -> Passage:
        """Return a whole text: read as it is written."""
        return cls(text=text, places=range(len(text) + 1))

    def part(self, start: int, end: int) -> Passage:
        """Return the characters from `start` to `end`."""
        return Passage(
            text=self.text[start:end],
            places=self.places[start : end + 1],
            encode=self.encode,
            expansion=self.expansion,
        )

    def inside(
        self, text: str, places: Iterable[int], encode: Callable[[str], str]
    ) -> Passage:
        """Return the layer below: what a quoted stretch of this passage contains.

        Args:
            text: the stretch without its quotes and escapes.
            places: where each of its characters stands in this passage, and where the
                last one ends.
            encode: writes characters with the escapes of that stretch.
        """
        outer = self.encode
        return Passage(
            text=text,
            places=[self.places[place] for place in places],
            encode=lambda new: outer(encode(new)),
            expansion=self.expansion,
        )

    def edit(self, start: int, end: int, new: str) -> Edit:
        """Return the edit that replaces characters `start` to `end` by `new`."""
        return Edit(
            start=self.places[start], end=self.places[end], text=self.encode(new)
        )


def line_at(text: str, at: int) -> str:
    r"""Return the number and the words of the line at a place.

    >>> line_at("a\n  b c", 5)
    "line 2: 'b c'"
    """
    start = text.rfind("\n", 0, at) + 1
    line = text[start:].partition("\n")[0].strip()
    shown = line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} …"
    return f"line {text.count(chr(10), 0, start) + 1}: {shown!r}"


def columns(line: str) -> Iterator[int]:
    """Yield the character of each byte of a line in UTF-8, and where the line ends."""
    for at, character in enumerate(line):
        yield from (at for _ in character.encode(errors="replace"))
    yield len(line)


def line_starts(text: str) -> list[int]:
    """Return where each line of Python code begins."""
    starts = [0]
    for match in re.finditer(r"\r\n|\n|\r|\f", text):
        if match[0] != "\f":
            starts.append(match.end())
    return starts


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text after edits; those of one place in the order given.

    >>> edited("abc", [Edit(start=1, end=2, text="x"), Edit(start=3, end=3, text="!")])
    'axc!'
    """
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        pieces += [text[done : max(edit.start, done)], edit.text]
        done = max(edit.end, done)
    return "".join([*pieces, text[done:]])
