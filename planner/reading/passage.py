"""A stretch of a text as its reader sees it, and the edits that change it in place.

A command can stand in a quoted string of another command, and that in a manifest. Each
layer is a `Passage`: its text without quotes and escapes, where each character stands
in the whole text, and how to write new characters there. An edit of the innermost
layer therefore changes its own place in the whole text, and nothing else.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace

from planner.errors import PlannerError
from planner.values import frozen

MOST_EXPANDED = 1 << 18
"""Characters that may come into one text for others: four times the longest text."""
_LONGEST_LINE = 120
_DEEPEST = 32
"""Variables that stand for each other; what is deeper is changed where it is used."""
Span = tuple[int, int]


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
    pieces: tuple[Stretch, ...] = ()
    """Stretches that stand for something else, in order; they do not overlap."""
    through: tuple[Span, ...] = ()
    """Where the whole text names this passage: the variables that it came through."""
    depth: int = 0
    """How many of them stand for each other at most."""

    @property
    def at(self) -> tuple[Span, ...]:
        """The characters of the whole text that this one comes from."""
        pieces = (span for one in self.pieces if one.of for span in one.of.at)
        is_own = any(one.is_own for one in self.pieces)
        own = () if is_own else ((self.places[0], self.places[-1]),)
        return tuple(dict.fromkeys((*own, *self.through, *pieces)))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The stretches whose values the text does not tell."""
        open_ = (one for one in self.pieces if one.of is None)
        return tuple(self.text[one.start : one.end] for one in open_)

    @classmethod
    def whole(cls, text: str) -> Passage:
        """Return a whole text: read as it is written."""
        return cls(text=text, places=range(len(text) + 1))

    def part(self, start: int, end: int) -> Passage:
        """Return the characters from `start` to `end`: where they are written."""
        if not self.pieces:
            return self.own(start, end)
        found = self._pieces(start, end)
        if len(found) == 1 and found[0].start <= start and end <= found[0].end:
            one = found[0]
            if one.of is not None:
                inner = one.of.part(start - one.start, end - one.start)
                named = (self.places[one.start], self.places[one.end])
                through = self.through if one.is_own else (named, *self.through)
                return replace(inner, through=(*inner.through, *through))
        return replace(
            self,
            text=self.text[start:end],
            places=self.places[start : end + 1],
            pieces=tuple(one.within(start, end) for one in found),
        )

    def own(self, start: int, end: int) -> Passage:
        """Return the same characters where this layer has them: no name is followed."""
        found = self._pieces(start, end) if self.pieces else ()
        one = found[0] if len(found) == 1 and found[0].is_own else None
        if one is not None and one.of and one.start <= start and end <= one.end:
            return one.of.own(start - one.start, end - one.start)
        return Passage(  # of each word of a text: `replace` takes three times as long
            text=self.text[start:end],
            places=self.places[start : end + 1],
            encode=self.encode,
            expansion=self.expansion,
            through=self.through,
            depth=self.depth,
        )

    def ended(self, more: str) -> Passage:
        """Return it with further characters, all of which stand where it ends."""
        places = [*self.places, *[self.places[-1]] * len(more)]
        return replace(self, text=self.text + more, places=places)

    def _pieces(self, start: int, end: int) -> tuple[Stretch, ...]:
        """Return the pieces that characters `start` to `end` have a part in."""
        if not self.pieces:
            return ()
        if start == end:
            return tuple(p for p in self.pieces if (p.start, p.end) == (start, end))
        first = bisect_left(self.pieces, start + 1, key=lambda piece: piece.end)
        last = bisect_left(self.pieces, end, key=lambda piece: piece.start)
        return self.pieces[first:last]

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
        outer, at = self.encode, list(places)
        found = self._pieces(at[0], at[-1]) if self.pieces else ()
        pieces = (one.inside(text, at, encode) for one in found)
        return replace(
            self,
            text=text,
            places=[self.places[place] for place in at],
            encode=lambda new: outer(encode(new)),
            pieces=tuple(one for one in pieces if one.start < one.end),
        )

    def holding(self, pieces: Iterable[Stretch]) -> Passage:
        """Return this passage, in which further stretches stand for something."""
        new = [one for one in pieces if not one.of or one.of.depth < _DEEPEST]
        if not new:
            return self
        depths = [self.depth, *(one.of.depth + 1 for one in new if one.of)]
        both = sorted((*self.pieces, *new), key=lambda one: one.start)
        return replace(self, pieces=tuple(both), depth=max(depths))

    def edit(self, start: int, end: int, new: str) -> Edit:
        """Return the edit that replaces characters `start` to `end` by `new`."""
        return Edit(
            start=self.places[start], end=self.places[end], text=self.encode(new)
        )


@frozen
class Stretch:
    """A stretch of a passage, and what it stands for."""

    start: int
    end: int
    of: Passage | None
    """Where the text writes it; None where it does not tell it."""
    is_own: bool = False
    """Whether it stands there itself: no name leads to it."""

    def moved(self, by: int) -> Stretch:
        """Return it so many characters further on."""
        return replace(self, start=self.start + by, end=self.end + by)

    def within(self, start: int, end: int) -> Stretch:
        """Return what is left of it in the characters from `start` to `end`."""
        first, last = max(self.start, start), min(self.end, end)
        of = self.of
        if of is not None and (first, last) != (self.start, self.end):
            of = of.part(first - self.start, last - self.start)
        return replace(self, start=first - start, end=last - start, of=of)

    def inside(
        self, text: str, places: Sequence[int], encode: Callable[[str], str]
    ) -> Stretch:
        """Return it in the layer below, as `Passage.inside` makes it."""
        first = bisect_left(places, self.start, 0, len(text))
        last = bisect_left(places, self.end, 0, len(text))
        if self.of is None or first == last:
            return replace(self, start=first, end=last, of=None)
        own = [place - self.start for place in places[first:last]]
        of = self.of.inside(text[first:last], [*own, own[-1] + 1], encode)
        return replace(self, start=first, end=last, of=of)


class Composer:
    """Puts a text together from stretches of a page and from what others stand for."""

    def __init__(self, page: Passage) -> None:
        """Begin with nothing."""
        self.page = page
        self.texts: list[str] = []
        self.places: list[int] = []
        self.pieces: list[Stretch] = []

    def keep(self, start: int, end: int) -> None:
        """Append a stretch of the page as it is."""
        self.texts.append(self.page.text[start:end])
        self.places += range(start, end)

    def add(self, text: str, at: int) -> None:
        """Append characters that stand for those at one place."""
        self.texts.append(text)
        self.places += [at] * len(text)

    def put_in(self, found: Passage | None, at: int, written: str = "") -> None:
        """Append what a name stands for; as it is written where that is not told."""
        text = written if found is None else found.text
        if found is not None:
            self.page.expansion.add(len(text))
        start = len(self.places)
        self.add(text, at)
        self.pieces.append(Stretch(start=start, end=len(self.places), of=found))

    def passage(self, end: int, encode: Callable[[str], str] = _as_it_is) -> Passage:
        """Return what was put together, which ends at a place of the page."""
        places = [*self.places, end]
        return self.page.inside("".join(self.texts), places, encode).holding(
            self.pieces
        )


def together(parts: Sequence[Passage], between: str = "") -> Passage:
    """Return texts one behind the other, each of them where it is written."""
    places: list[int] = []
    pieces: list[Stretch] = []
    for number, part in enumerate(parts):
        if number:
            places += [part.places[0]] * len(between)
        size = len(places)
        known = sum(one.end - one.start for one in part.pieces if one.is_own)
        own = Stretch(start=0, end=len(part.text), of=part, is_own=True)
        several = part.pieces if known == len(part.text) else (own,)
        pieces += [one.moved(size) for one in several] if size else several
        places += part.places[: len(part.text)]
    return replace(
        parts[-1],
        text=between.join(part.text for part in parts),
        places=[*places, parts[-1].places[-1]],
        pieces=tuple(pieces),
        through=(),
        depth=max(part.depth for part in parts),
    )


def joined(parts: Sequence[Passage]) -> Passage:
    r"""Return parts of one page as one passage.

    A word that ends with a part ends where the next part begins: so all but the last
    end in a character that belongs to no word, such as a line break.

    >>> page = Passage.whole("> a\n> b")
    >>> joined([page.part(2, 4), page.part(6, 7)]).text
    'a\nb'
    """
    return replace(together(parts), pieces=(), depth=0)


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
