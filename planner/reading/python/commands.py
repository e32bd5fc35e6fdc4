"""Commands that code puts together, as a shell or a list of words has them.

What is changed in such a command is written where its piece comes from: in the string,
in the item of the list, in the constant.
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from planner.errors import PlannerError
from planner.reading.passage import Edit, Passage, line_at
from planner.reading.python.values import Fragment, Place, Slot
from planner.reading.reading import FoundStart
from planner.reading.scripts.shell import Word
from planner.reading.sites import Site, Start, WordList

BETWEEN = "\0"
"""Before a word that is put into a list: no word contains it."""
_LITERAL = re.compile(r"[rRbBuU]?([\"'])")
Span = Callable[[ast.expr], Place]


class Composed:
    """A command as one text, and the way back from its characters to the code."""

    def __init__(self, page: Passage, whole: str, pieces: Sequence[Fragment]) -> None:
        """Put pieces together; `whole` is the text that edits refer to."""
        self.page, self.whole = page, whole
        self.pieces: list[Fragment] = []
        self.firsts: list[int] = []
        at = 0
        for piece in pieces:
            if piece.text:
                self.pieces.append(piece)
                self.firsts.append(at)
                at += len(piece.text)
        self.text = "".join(piece.text for piece in self.pieces)
        page.expansion.add(at)
        places = range(at + 1)
        self.passage = Passage(text=self.text, places=places, expansion=page.expansion)

    def start(self, found: FoundStart) -> FoundStart:
        """Return a start whose places are those of the code."""
        start = found.start
        moved = replace(
            start,
            sites=tuple(map(self.site, start.sites)),
            add=lambda name, value: self.edits(start.add(name, value)),
            env={name: self.site(site) for name, site in start.env.items()},
            version=None if start.version is None else self.site(start.version),
        )
        return replace(found, start=moved)

    def site(self, site: Site) -> Site:
        """Return an argument whose places are those of the code."""
        return replace(
            site,
            replace=lambda value: self.edits(site.replace(value)),
            remove=lambda: self.edits(site.remove()),
            at=tuple(
                dict.fromkeys(one for span in site.at for one in self.places(*span))
            ),
        )

    def places(self, start: int, end: int) -> Iterator[Place]:
        """Yield where characters are written, and where they are put in."""
        for piece, first, last in self._within(start, end):
            places = piece.passage.places
            if len(places) == len(piece.text) + 1:
                yield places[first], places[last]
            else:  # written otherwise than it is put in
                yield places[0], places[-1]
            if piece.use is not None:
                yield self.page.places[piece.use[0]], self.page.places[piece.use[1]]

    def _within(self, start: int, end: int) -> Iterator[tuple[Fragment, int, int]]:
        """Yield the pieces between two characters, and what is taken of each."""
        at = max(bisect_right(self.firsts, start) - 1, 0)
        while at < len(self.pieces) and self.firsts[at] < end:
            piece, first = self.pieces[at], self.firsts[at]
            begin, stop = max(start - first, 0), min(end - first, len(piece.text))
            if begin < stop:
                yield piece, begin, stop
            at += 1

    def edits(self, found: Sequence[Edit]) -> list[Edit]:
        """Return edits of the command as edits of the whole text."""
        return [one for edit in found for one in self.edit(edit)]

    def edit(self, edit: Edit) -> list[Edit]:
        """Return one edit of the command as edits of the whole text.

        Raises:
            PlannerError: where the place of it is not certain.
        """
        if edit.start == edit.end:
            return [self._inserted(edit)]
        parts = list(self._within(edit.start, edit.end))
        if len(parts) == 1:
            piece, first, last = parts[0]
            is_all = (first, last) == (0, len(piece.text))
            if is_all or not (piece.is_whole or piece.is_open):
                if not edit.text and piece.use is not None and is_all:
                    return [self.page.edit(*piece.use, "")]
                return [piece.passage.edit(first, last, edit.text)]
        return [self._across(parts, edit.text)]

    def _inserted(self, edit: Edit) -> Edit:
        """Write into a string of the command itself, not into what is put in there."""
        at = bisect_right(self.firsts, edit.start - 1) - 1
        for near in (at, at + 1):
            if not 0 <= near < len(self.pieces):
                continue
            piece, offset = self.pieces[near], edit.start - self.firsts[near]
            if (
                piece.use is None
                and not piece.is_whole
                and 0 <= offset <= len(piece.text)
            ):
                return piece.passage.edit(offset, offset, edit.text)
        raise self.by_hand(edit.start)

    def _across(self, parts: Sequence[tuple[Fragment, int, int]], text: str) -> Edit:
        """Write in the place of several pieces of one string."""
        tokens = {piece.token for piece, _, _ in parts}
        spans = [self._used(*part) for part in parts]
        if len(tokens) != 1 or -1 in tokens or None in spans:
            raise self.by_hand(0, parts)
        own = [one for one in spans if one is not None]
        writer = next((p for p, _, _ in parts if p.use is None), parts[0][0])
        written = writer.passage.encode(text)
        return Edit(start=own[0][0], end=own[-1][1], text=written)

    def _used(self, piece: Fragment, first: int, last: int) -> Place | None:
        if piece.use is None:
            places = piece.passage.places
            return None if piece.is_whole else (places[first], places[last])
        if (first, last) != (0, len(piece.text)):
            return None
        return self.page.places[piece.use[0]], self.page.places[piece.use[1]]

    def by_hand(
        self, at: int, parts: Sequence[tuple[Fragment, int, int]] = ()
    ) -> PlannerError:
        """Return that a command is changed by hand, with its line."""
        found = parts or list(self._within(at - 1, at + 1))
        place = found[0][0].passage.places[found[0][1]] if found else 0
        return PlannerError(
            "The command is put together from parts, so what is written into one of "
            "them may not be what runs. Change it by hand, "
            f"{line_at(self.whole, place)}."
        )


class ComposedList(Composed):
    """A command as a list of words, each an item of the code."""

    def __init__(
        self, page: Passage, whole: str, slots: Sequence[Slot], span: Span
    ) -> None:
        """Put items together; `span` tells where an expression stands."""
        self.slots = [slot for slot in slots if not slot.value.open.startswith("*")]
        self.span = span
        pieces: list[Fragment] = []
        self.ends: list[int] = []
        at = 0
        gap = Fragment(text=" ", passage=page.part(0, 0), is_whole=True)
        for slot in self.slots:
            pieces += [gap] if at else []
            at += bool(at)
            pieces += slot.value.pieces
            at += sum(len(piece.text) for piece in slot.value.pieces)
            self.ends.append(at)
        super().__init__(page, whole, pieces)

    def words(self) -> WordList:
        """Return the words, in places of the composed text."""
        words, start = list[Word](), 0
        for slot, end in zip(self.slots, self.ends, strict=True):
            named = (slot.value.open,) if slot.value.open else ()
            if slot.condition:
                shown = slot.value.open or str(slot.value.constant)
                named = (f"{shown!r} {slot.condition}"[:80],)
            words.append(
                Word(
                    passage=self.passage.part(start, end),
                    start=start,
                    end=end,
                    write=str,
                    variables=named,
                )
            )
            start = end + 1
        firsts = [0, *self.ends[:-1]]
        return WordList(
            words=tuple(words),
            spans=tuple(zip(firsts, self.ends, strict=True)),
            before_flag=BETWEEN,
            before_value=BETWEEN,
        )

    def start(self, found: FoundStart) -> FoundStart:
        """Return a start in which a flag that is put in on a condition is open."""
        moved = super().start(found)
        flags = {
            str(slot.value.constant): slot.condition
            for slot in self.slots
            if slot.condition
        }
        sites = (
            replace(
                site, value=None, variables=(f"{site.value} {flags[site.written]}",)
            )
            if site.written in flags and not site.variables
            else site
            for site in moved.start.sites
        )
        return replace(moved, start=replace(moved.start, sites=tuple(sites)))

    def edit(self, edit: Edit) -> list[Edit]:
        """Return one edit of the command as edits of the whole text."""
        at = bisect_right(self.ends, edit.start - 1)
        is_end = at < len(self.ends) and self.ends[at] == edit.start
        if is_end and edit.text.startswith(BETWEEN):
            return [self._put_in(at, edit.text.split(BETWEEN)[1:])]
        if is_end and not edit.text and edit.end in self.ends:
            return self._taken_out(at + 1, self.ends.index(edit.end) + 1)
        first = self.ends[at - 1] + 1 if at else 0
        is_item = at < len(self.ends) and (edit.start, edit.end) == (
            first,
            self.ends[at],
        )
        use = self.slots[at].use if is_item else None
        if use is not None and len(self.slots[at].value.pieces) > 1:
            return [self.page.edit(*self.span(use), json.dumps(edit.text))]
        return super().edit(edit)

    def _put_in(self, at: int, words: Sequence[str]) -> Edit:
        """Write words behind the last item of the first list that is written out."""
        owner = next(
            (slot.owner for slot in self.slots if slot.owner is not None), None
        )
        if owner is None or not words:
            raise self.by_hand(self.ends[at])
        own = [
            slot for slot in self.slots[: at + 1] if slot.owner is owner and slot.place
        ]
        if not own or own[-1].place is None:
            raise self.by_hand(self.ends[at])
        start, end = own[-1].place
        gaps = [
            self.page.text[before.place[1] : after.place[0]]
            for before, after in pairwise(own)
            if before.place is not None and after.place is not None
        ]
        broken = [gap for gap in gaps if "\n" in gap and "#" not in gap]
        gap = broken[-1] if broken else ", "
        quote = _LITERAL.match(self.page.text, start)
        is_double = quote is None or quote[1] == '"'
        texts = [json.dumps(word) if is_double else repr(word) for word in words]
        return self.page.edit(end, end, "".join([gap, ", ".join(texts)]))

    def _taken_out(self, first: int, last: int) -> list[Edit]:
        """Take items out of the lists that they are written in."""
        edits: list[Edit] = []
        while first < last:
            owner, stop = self.slots[first].owner, first
            while stop < last and self.slots[stop].owner is owner:
                stop += 1
            edits.append(self._run_out(first, stop))
            first = stop
        return edits

    def _run_out(self, first: int, last: int) -> Edit:
        """Take out items of one list, with the comma before or behind them."""
        own = self.slots[first:last]
        before, after = self.slots[first - 1], (*self.slots[last : last + 1], None)[0]
        places = [slot.place for slot in own if slot.place and not slot.condition]
        if own[0].owner is None or len(places) != len(own):
            raise self.by_hand(self.ends[first])
        start, end = places[0][0], places[-1][1]
        if before.owner is own[0].owner and before.place is not None:
            start = before.place[1]
        elif after is None or after.owner is not own[0].owner or after.place is None:
            raise self.by_hand(self.ends[first])
        else:
            end = after.place[0]
        return self.page.edit(start, end, "")


def with_open(start: Start, slots: Sequence[Slot]) -> Start:
    """Return a start that names what is added to its command at run time."""
    rest = [slot.value.open for slot in slots if slot.value.open.startswith("*")]
    said = (
        f"{one.lstrip('*')} may add arguments: the text does not set it."
        for one in rest
    )
    return replace(start, open=(*start.open, *said))
