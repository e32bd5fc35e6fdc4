"""Commands that code puts together as lists of words, each an item of the code.

What is changed in such a command is written where its piece comes from: in the item of
the list, in the constant. Further words go behind the last item of a list.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from planner.errors import PlannerError
from planner.reading.passage import Edit, Passage, line_at
from planner.reading.python.values import Place, Slot, Value
from planner.reading.scripts.shell import Word
from planner.reading.sites import Start, WordList
from planner.values import frozen

_LITERAL = re.compile(r"[rRbBuU]?([\"'])")
_LONGEST = 80
Span = Callable[[ast.expr], Place]


@frozen
class Item(Word):
    """A word that is an item of the code."""

    slot: Slot


@frozen
class CodeList(WordList):
    """Words of a command that stand in lists of the code."""

    page: Passage
    whole: str
    """The text that edits refer to."""

    def insert(
        self,
        after: int,
        values: Sequence[str],
        *,
        is_flag: bool = True,  # noqa: ARG002 - a flag or a value, each is an item
    ) -> list[Edit]:
        """Return the edit that adds words to the first list that is written out.

        Raises:
            PlannerError: where no list is written out.
        """
        if not values:
            return []
        slots = [self._slot(at) for at in range(after + 1)]
        owner = next((slot.owner for slot in slots if slot.owner is not None), None)
        own = [slot.place for slot in slots if slot.owner is owner and slot.place]
        if owner is None or not own:
            raise self._by_hand(after)
        start, end = own[-1]
        gaps = [self.page.text[one[1] : behind[0]] for one, behind in pairwise(own)]
        broken = [gap for gap in gaps if "\n" in gap and "#" not in gap]
        quote = _LITERAL.match(self.page.text, start)
        write = repr if quote is not None and quote[1] == "'" else json.dumps
        words = ", ".join(map(write, values))
        return [self.page.edit(end, end, f"{broken[-1] if broken else ', '}{words}")]

    def remove(self, first: int, last: int) -> list[Edit]:
        """Return the edits that take items out of the lists that they stand in.

        Raises:
            PlannerError: for an item that has no place of its own.
        """
        numbers = groupby(range(first, last), key=lambda at: id(self._slot(at).owner))
        runs = [[*run] for _, run in numbers]
        return [self._taken_out(run[0], run[-1] + 1) for run in runs]

    def _slot(self, at: int) -> Slot:
        one = self.words[at] if 0 <= at < len(self.words) else None
        return one.slot if isinstance(one, Item) else Slot(value=Value())

    def _taken_out(self, first: int, last: int) -> Edit:
        """Take items of one list out, with the comma before or behind them."""
        own = [self._slot(at) for at in range(first, last)]
        places = [slot.place for slot in own if slot.place and not slot.condition]
        owner, before, behind = own[0].owner, self._slot(first - 1), self._slot(last)
        if owner is not None and len(places) == len(own):
            if before.owner is owner and before.place is not None:
                return self.page.edit(before.place[1], places[-1][1], "")
            if behind.owner is owner and behind.place is not None:
                return self.page.edit(places[0][0], behind.place[0], "")
        raise self._by_hand(first)

    def _by_hand(self, at: int) -> PlannerError:
        """Return that a command is changed by hand, with its line."""
        return PlannerError(
            "The command is put together from parts, so what is written into one of "
            "them may not be what runs. Change it by hand, "
            f"{line_at(self.whole, self.words[at].start)}."
        )


def list_of(page: Passage, whole: str, slots: Sequence[Slot], span: Span) -> CodeList:
    """Return items of code as words; `span` tells where an expression stands."""
    words = tuple(
        item_of(page, slot, span)
        for slot in slots
        if not slot.value.open.startswith("*")
    )
    spans = tuple((word.start, word.end) for word in words)
    return CodeList(words=words, spans=spans, page=page, whole=whole)


def item_of(page: Passage, slot: Slot, span: Span) -> Item:
    """Return a value of the code as a word."""
    value = slot.value
    text = value.text or page.part(0, 0)
    named = (value.open,) if value.open else ()
    if slot.condition:
        shown = value.open or str(value.constant)
        named = (f"{shown!r} {slot.condition}"[:_LONGEST],)
    start, end, write = text.places[0], text.places[-1], text.encode
    if slot.use is not None and sum(one.is_own for one in text.pieces) > 1:
        start, end = (page.places[at] for at in span(slot.use))
        write = lambda new: page.encode(json.dumps(new))  # noqa: E731
    found = Item(
        passage=text, start=start, end=end, write=write, variables=named, slot=slot
    )
    one = found.part(0)
    if one.via is found.via:
        return found
    return replace(
        found, passage=one.passage, start=one.start, end=one.end, write=one.write
    )


def with_open(start: Start, slots: Sequence[Slot]) -> Start:
    """Return a start that names what is added to its command at run time.

    A flag that is put in on a condition is open.
    """
    rest = [slot.value.open for slot in slots if slot.value.open.startswith("*")]
    said = (
        f"{one.lstrip('*')} may add arguments: the text does not set it."
        for one in rest
    )
    flags = {
        str(slot.value.constant): slot.condition for slot in slots if slot.condition
    }
    sites = (
        replace(site, value=None, variables=(f"{site.value} {flags[site.written]}",))
        if site.written in flags and not site.variables
        else site
        for site in start.sites
    )
    return replace(start, sites=tuple(sites), open=(*start.open, *said))
