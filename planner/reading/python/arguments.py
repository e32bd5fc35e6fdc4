"""Arguments in Python code: where each stands, and how it is changed there.

Those of a command are items of lists: what is changed is written where its piece comes
from, in the item or in the constant, and further words go behind a list's last item.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from planner.errors import PlannerError
from planner.reading.passage import Edit, Passage, line_at
from planner.reading.python.calls import Calls
from planner.reading.python.texts import written
from planner.reading.python.values import Place, Slot, plain_of
from planner.reading.scripts.shell import Word
from planner.reading.sites import Site, Start, WordList

_QUOTED = re.compile(r"[rR]?([\"'])[^\"'\\]*\1\Z")

_LITERAL = re.compile(r"[rRbBuU]?([\"'])")
_LONGEST = 80
Span = Callable[[ast.expr], Place]
_COMMA = re.compile(r"[ \t]*,(?P<line>[ \t]*(?:#[^\n]*)?(?=\n))?[ \t]*")


class Sites(Calls):
    """Code whose values are the arguments of starts."""

    def __init__(self, page: Passage, whole: str) -> None:
        """Store the code, and the text that edits refer to."""
        super().__init__(page)
        self.whole = whole
        self.uses: dict[Place, set[str]] = {}
        """The arguments that each constant is written for."""

    def site(self, name: str, slot: Slot, wording: str = "") -> Site:
        """Return an argument of vLLM by the value that the code gives it."""
        value, opened = plain_of(slot, self.page.expansion)
        for one in (slot.value.node, slot.use):
            if one is not None:
                self.uses.setdefault(self.span(one), set()).add(name)
        spans = [slot.place, *(self.span(n) for n in (slot.value.node, slot.use) if n)]
        places = self.page.places
        return Site(
            name=name,
            value=None if opened else value,
            replace=partial(self._replaced, slot),
            remove=partial(self._removed, slot),
            variables=opened,
            written=wording or name,
            at=tuple(dict.fromkeys((places[s[0]], places[s[1]]) for s in spans if s)),
        )

    def _replaced(self, slot: Slot, value: object) -> list[Edit]:
        """Write where the constant stands; where it is used, if it has other uses."""
        node = slot.value.node or slot.use
        if node is not None and len(self.uses.get(self.span(node), ())) > 1:
            node = slot.use
        if node is None:
            raise self._by_hand(slot)
        start, end = self.span(node)
        old = self.page.text[start:end]
        quote, plain = _QUOTED.match(old), str(value)
        is_plain = isinstance(value, str) or slot.use is not node
        is_safe = quote is not None and not {quote[1], "\\", "\n"} & {*plain}
        if quote is not None and is_safe and is_plain:
            return [self.page.edit(start, end, f"{quote[1]}{plain}{quote[1]}")]
        code = repr(value) if isinstance(value, str) else written(value)
        return [self.page.edit(start, end, code)]

    def _by_hand(self, slot: Slot) -> PlannerError:
        node = slot.use or slot.value.node
        at = self.page.places[self.span(node)[0]] if node is not None else 0
        return PlannerError(
            "The entry has no place of its own. Change it by hand, "
            f"{line_at(self.whole, at)}."
        )

    def _removed(self, slot: Slot) -> list[Edit]:
        """Return the edit that takes an entry out, with its comma and its line."""
        if slot.place is None:
            raise self._by_hand(slot)
        start, end = slot.place
        comma = _COMMA.match(self.text, end)
        line = re.search(r"\n[ \t]*\Z", self.text[:start])
        if comma is None:
            before = re.search(r",\s*\Z", self.text[:start])
            start = start if before is None else before.start()
        elif line is not None and comma["line"] is not None:
            start, end = line.start(), comma.end("line")
        else:
            end = comma.end()
        return [self.page.edit(start, end, "")]

    def added(
        self, node: ast.expr, names: Mapping[str, str], name: str, value: object
    ) -> list[Edit]:
        """Return the edit that adds an entry after the last one."""
        own = next((n for n, known in names.items() if known == name), name)
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            places = [(self.span(k or v)[0], self.span(v)[1]) for k, v in pairs]
            entry = f"{name!r}: {written(value)}"
        elif isinstance(node, ast.Call):
            places = [self.span(one) for one in node.args]
            places += [
                (self.at(word.lineno, word.col_offset), self.span(word.value)[1])
                for word in node.keywords
            ]
            entry = f"{own}={written(value)}"
        else:
            raise PlannerError(f"The text has no place for {name}: change it by hand.")
        if not places:
            end = self.span(node)[1] - 1
            return [self.page.edit(end, end, entry)]
        start, end = max(places, key=lambda place: place[1])
        indent = re.search(r"\n[ \t]*\Z", self.text[:start])
        gap = " " if indent is None else indent[0]
        return [self.page.edit(end, end, f",{gap}{entry}")]

    def variables(self) -> dict[str, Site]:
        """Return the variables that the code has set."""
        fields = self.environ.fields or {}
        return {
            name: self.site(name, slot)
            for name, slot in fields.items()
            if not name.startswith("**")
        }


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
    places: dict[ast.expr, list[Place]] = {}
    for slot in own:
        if slot.owner is not None and slot.place is not None:
            places.setdefault(slot.owner, []).append(slot.place)
    first = next(iter(places), None)
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
                is_closed = owner is not first
                found[owner] = _layout(page, places[owner], is_closed=is_closed)
            one = found[owner]
            spans.append((page.places[place[0]], page.places[place[1]]))
        lists[spans[-1][1]] = one
    return WordList(words=words, spans=tuple(spans), lists=lists)


def _layout(page: Passage, places: Sequence[Place], *, is_closed: bool) -> WordList:
    """Return how further items are written into a list of the code."""
    gaps = [page.text[one[1] : behind[0]] for one, behind in pairwise(places)]
    broken = [gap for gap in gaps if "\n" in gap and "#" not in gap]
    quote = _LITERAL.match(page.text, places[-1][0])
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
    return found.resolved()


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
