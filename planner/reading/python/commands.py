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
from functools import partial
from itertools import pairwise

from planner.errors import PlannerError
from planner.reading.passage import Passage, line_at
from planner.reading.python.values import Place, Slot
from planner.reading.scripts.shell import Word
from planner.reading.sites import Start, WordList

_LITERAL = re.compile(r"[rRbBuU]?([\"'])")
_LONGEST = 80
Span = Callable[[ast.expr], Place]


def list_of(page: Passage, whole: str, slots: Sequence[Slot], span: Span) -> WordList:
    """Return items of code as words.

    Args:
        page: the code.
        whole: the text that edits refer to.
        slots: the items; what is added at run time is none of the words.
        span: tells where an expression stands.
    """
    own = [slot for slot in slots if not slot.value.open.startswith("*")]
    words = tuple(item_of(page, slot, span) for slot in own)
    first = next((slot.owner for slot in own if slot.owner and slot.place), None)
    found: dict[ast.expr, WordList] = {}
    lists, spans = dict[int, WordList](), list[tuple[int, int]]()
    for slot, word in zip(own, words, strict=True):
        owner, place = slot.owner, slot.place
        if owner is None or place is None or slot.condition:
            fixed = partial(_by_hand, whole, word.start)
            one = WordList(words=(), spans=(), is_closed=True, by_hand=fixed)
            spans.append((word.start, word.end))
        else:
            if owner not in found:
                found[owner] = _layout(page, owner, own, is_closed=owner is not first)
            one = found[owner]
            spans.append((page.places[place[0]], page.places[place[1]]))
        lists[spans[-1][1]] = one
    return WordList(words=words, spans=tuple(spans), lists=lists)


def _layout(
    page: Passage, owner: ast.expr, slots: Sequence[Slot], *, is_closed: bool
) -> WordList:
    """Return how further items are written into a list of the code."""
    places = [slot.place for slot in slots if slot.owner is owner and slot.place]
    gaps = [page.text[one[1] : behind[0]] for one, behind in pairwise(places)]
    broken = [gap for gap in gaps if "\n" in gap and "#" not in gap]
    quote = _LITERAL.match(page.text, places[-1][0]) if places else None
    write = repr if quote is not None and quote[1] == "'" else json.dumps
    return WordList(
        words=(),
        spans=(),
        before_flag=page.encode(broken[-1] if broken else ", "),
        before_value=page.encode(", "),
        has_commas=True,
        is_closed=is_closed,
        write=lambda value: page.encode(write(value)),
    )


def _by_hand(whole: str, at: int) -> PlannerError:
    """Return that a command is changed by hand, with its line."""
    return PlannerError(
        "The command is put together from parts, so what is written into one of them "
        f"may not be what runs. Change it by hand, {line_at(whole, at)}."
    )


def item_of(page: Passage, slot: Slot, span: Span) -> Word:
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
    found = Word(passage=text, start=start, end=end, write=write, variables=named)
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
