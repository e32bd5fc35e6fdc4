"""The Upgrade tab: what changes from one release of vLLM to another, rule by rule."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import ipywidgets as w

from planner.app.widgets.callbacks import guarded
from planner.app.widgets.section import Section, tables_view
from planner.engine.releases import MODELLED, NEWEST, known
from planner.planning.inputs import Inputs
from planner.show.html import tag
from planner.show.sheet import pinned
from planner.show.upgrade import sheet
from planner.solve.upgrading import upgrade

if TYPE_CHECKING:
    from planner.planning.result import Plan

PAUSE_SECONDS = 0.4
"""An upgrade plans each release between several times, so it waits."""


class UpgradeSection(Section):
    """From the plan's release to the newest; from the one before for the newest's own.

    Both can be chosen; a release that a text asks for stays until the plan's changes.
    """

    def __init__(self) -> None:
        super().__init__("Upgrade", "upgrade", PAUSE_SECONDS)
        self._guarded_draw = guarded(self._say)(self._draw)
        self._version = ""
        self._first, self._last = MODELLED[1], NEWEST

    @cached_property
    def first(self) -> w.Dropdown:
        """The release that runs now; created when first opened."""
        return self._choice("From")

    @cached_property
    def last(self) -> w.Dropdown:
        """The release to upgrade to."""
        return self._choice("To")

    @cached_property
    def view(self) -> w.HTML:
        """The differences."""
        return tables_view()

    def _choice(self, words: str) -> w.Dropdown:
        found = w.Dropdown(options=list(MODELLED), description=words)
        found.observe(lambda _change: self._chosen(), names="value")
        return found

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the choices and the differences."""
        choices = w.HBox([self.first, self.last])
        choices.add_class("planner-releases")
        return (choices, w.HTML(tag("p", known(), class_="pl-note")), self.view)

    def show(self, plan: Plan) -> None:
        """Compare this plan's release, once the user pauses."""
        if plan.vllm_version != self._version:
            self._version = plan.vllm_version
            self.ask(plan.vllm_version, NEWEST)
        super().show(plan)

    def ask(self, first: str, last: str) -> None:
        """Go from a release to another, from the one before where both are the same."""
        if first == last:
            first = MODELLED[min(MODELLED.index(first) + 1, len(MODELLED) - 1)]
        self._first, self._last = first, last
        if self.is_open:
            self.refresh()

    def refresh(self) -> None:
        """Show the releases, and compare them."""
        self.first.value, self.last.value = self._first, self._last
        self._later.run(self._guarded_draw)

    def _chosen(self) -> None:
        """Take the releases that are chosen."""
        if (self.first.value, self.last.value) != (self._first, self._last):
            self._first, self._last = self.first.value, self.last.value
            self._later.run(self._guarded_draw)

    def _say(self, text: str) -> None:
        """Show the error of a callback; the guard clears it with an empty text."""
        if text:
            self.view.value = tag("p", text, class_="pl-note")

    def _draw(self) -> None:
        if self._plan is None or not self.is_open:
            return
        start = Inputs.of(self._plan).changed(vllm_version=self._first)
        self.view.value = pinned(sheet(upgrade(start, to=self._last)))
