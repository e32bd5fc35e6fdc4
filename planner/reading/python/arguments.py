"""Arguments in Python code: where each stands, and how it is changed there."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import partial

from planner.errors import PlannerError
from planner.reading.passage import Edit, Passage, line_at
from planner.reading.python.calls import Calls
from planner.reading.python.texts import written
from planner.reading.python.values import Place, Slot, plain_of
from planner.reading.sites import Site

_QUOTED = re.compile(r"[rR]?([\"'])[^\"'\\]*\1\Z")

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
