"""The Compare tab: pinned plans, and the current one under another release."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import ipywidgets as w

from planner.app.widgets.actions import ActionList, Row, action
from planner.app.widgets.callbacks import guarded
from planner.app.widgets.chart import PlotlyChart
from planner.app.widgets.section import Fold, Section, tables_view
from planner.engine.releases import MODELLED, NEWEST
from planner.show.html import tag
from planner.show.sheet import pinned
from planner.show.upgrade import sheet
from planner.solve.upgrading import upgrade

if TYPE_CHECKING:
    from planner.planning.result import Plan

MOST_PINS = 5
"""More bars than this cannot be compared at a glance."""
PAUSE_SECONDS = 0.1
UPGRADE_PAUSE_SECONDS = 0.4
"""An upgrade plans each release between several times, so it waits."""
NOW = "now"
_PIN_ROW: Row = {
    "key": NOW,
    "title": "The plan on the screen",
    "detail": "Pin it, change the controls, and see both side by side.",
    "actions": [action("pin", "Pin this plan")],
}


class UpgradeFold(Fold):
    """Shows what another release does to the plan; computed only while it is open."""

    def __init__(self) -> None:
        super().__init__("Another release of vLLM", "upgrade", UPGRADE_PAUSE_SECONDS)
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
        return tables_view()

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
        found = upgrade(self._plan, to=self.release.value)
        self.view.value = pinned(sheet(found))


class PinSection(Section):
    """Pins the current plan, lists the pinned ones, and compares them."""

    def __init__(self, open_plan: Callable[[Plan], None]) -> None:
        super().__init__("Compare", "pins", PAUSE_SECONDS)
        self.list = ActionList("Pinned plans", self._press, shown=MOST_PINS + 1)
        self.chart: PlotlyChart | None = None
        self._open = open_plan
        self._pins: dict[str, Plan] = {}
        self._letters = iter("ABCDEFGHIJKLMNOPQRSTUVWXYZ")

    @cached_property
    def table(self) -> w.HTML:
        """The differences; created with the first comparison."""
        return tables_view()

    @cached_property
    def upgrade(self) -> UpgradeFold:
        """The plan under another release; created when the tab is first opened."""
        return UpgradeFold()

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the list, the comparison where there is one, and other releases."""
        drawn = () if self.chart is None or not self._pins else (self.chart, self.table)
        return (self.list, *drawn, self.upgrade)

    def show(self, plan: Plan) -> None:
        """Compare the pinned plans with this one."""
        self._plan = plan
        if self.is_open:
            self.refresh()

    def _pin(self) -> None:
        if self._plan is None or len(self._pins) >= MOST_PINS:
            return
        letter = next(self._letters, None) or f"{len(self._pins) + 1}"
        self._pins[letter] = self._plan
        self.refresh()

    def _press(self, name: str, key: str) -> None:
        if name == "pin":
            self._pin()
        if key not in self._pins:
            return
        if name == "open":
            self._open(self._pins[key])
            return
        del self._pins[key]
        self.refresh()

    def refresh(self) -> None:
        """List the pinned plans, and compare them once the user pauses."""
        if self._plan is not None:
            self.upgrade.show(self._plan)
        rows = [_row(letter, plan) for letter, plan in self._pins.items()]
        if len(self._pins) < MOST_PINS:
            rows.append(_PIN_ROW)
        self.list.rows = rows
        if self._pins:
            self._later.run(self._draw)
        else:
            self._later.cancel()
            self.redraw()

    def _draw(self) -> None:
        if self._plan is None:
            return
        from planner.show import compared_plans  # noqa: PLC0415 - once it is open
        from planner.show.charts.compared_bars import figure_spec  # noqa: PLC0415 - once it is open
        from planner.solve.comparing.comparison import compare  # noqa: PLC0415 - once it is open

        plans, names = [*self._pins.values(), self._plan], [*self._pins, NOW]
        compared = compare(*plans, names=names)
        if self.chart is None:
            self.chart = PlotlyChart()
            self.chart.add_class("planner-compared-bars")
        self.chart.draw(figure_spec(compared), compared_plans.spoken(compared))
        self.table.value = pinned(compared_plans.tables(compared))
        self.redraw()


def _row(letter: str, plan: Plan) -> Row:
    return {
        "key": letter,
        "title": f"{letter}: {plan.name} on {plan.gpu.name}",
        "code": plan.command().removeprefix(f"vllm serve {plan.name}").strip(),
        "actions": [action("open", "Open"), action("remove", "Remove")],
    }
