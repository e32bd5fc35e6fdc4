"""The plan under another release of vLLM, in the Compare tab: what changes, and why."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import ipywidgets as w

from planner.app.widgets.callbacks import Later, guarded
from planner.app.widgets.section import Fold
from planner.engine.releases import MODELLED, NEWEST
from planner.late import late
from planner.show.html import tag

if TYPE_CHECKING:
    from planner.planning.result import Plan
    from planner.solve.upgrading import Upgrade

PAUSE_SECONDS = 0.4
"""An upgrade plans each release between several times, so it waits."""


class UpgradeFold(Fold):
    """Shows what another release does to the plan; computed only while it is open."""

    def __init__(self) -> None:
        super().__init__("Another release of vLLM", "upgrade")
        self._plan: Plan | None = None
        self._later = Later(PAUSE_SECONDS)
        self._guarded_draw = guarded(self._say)(self._draw)

    @cached_property
    def release(self) -> w.Dropdown:
        """The release that the plan's own is compared with."""
        choice = w.Dropdown(options=[NEWEST], description="Compared with")
        choice.observe(lambda _change: self._soon(), names="value")
        return choice

    @cached_property
    def view(self) -> w.HTML:
        """The differences; created when it is first opened."""
        view = w.HTML()
        view.add_class("pl-plan")
        return view

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the choice and the differences."""
        return (self.release, self.view)

    def show(self, plan: Plan) -> None:
        """Compare this plan's release, once the user pauses."""
        self._plan = plan
        if self.is_open:
            self.refresh()

    def refresh(self) -> None:
        """Offer the other releases, and compare with the one that is chosen."""
        if self._plan is None:
            return
        others = [one for one in MODELLED if one != self._plan.vllm_version]
        if tuple(others) != self.release.options:
            chosen = self.release.value
            self.release.options = others
            self.release.value = chosen if chosen in others else others[0]
        self._soon()

    def _soon(self) -> None:
        self._later.run(self._guarded_draw)

    def _say(self, text: str) -> None:
        """Show the error of a callback; the guard clears it with an empty text."""
        if text:
            self.view.value = tag("p", text, class_="pl-note")

    def _draw(self) -> None:
        if self._plan is None or not self.is_open:
            return
        found: Upgrade = late(
            "planner.solve.upgrading:upgrade", self._plan, to=self.release.value
        )
        self.view.value = late("planner.show.upgrade:pinned_html", found)
