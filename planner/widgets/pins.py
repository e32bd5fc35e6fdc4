"""Plans that a user pinned, and how the one on the screen differs from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import ipywidgets as w

from planner.widgets.actions import ActionList, Row, action
from planner.widgets.chart import PlotlyChart
from planner.widgets.later import Later

if TYPE_CHECKING:
    from planner.result import Plan

MOST_PINS = 5
"""More bars than that are no longer compared at a glance."""
PAUSE_SECONDS = 0.1
NOW = "now"


class PinSection(w.VBox):
    """A button that pins the plan, the pinned ones, and the comparison."""

    def __init__(self, open_plan: Callable[[Plan], None]) -> None:
        self.button = w.Button(
            description="Pin this plan",
            tooltip="Keep this plan to compare others with it",
        )
        self.button.add_class("planner-button")
        self.list = ActionList("Compare", self._press, shown=MOST_PINS)
        self.chart: PlotlyChart | None = None
        self.table = w.HTML()
        self.table.add_class("pl-plan")
        kept: tuple[w.Widget, ...] = (self.list, self.button)
        super().__init__(kept)
        self.add_class("planner-pins")
        self._open = open_plan
        self._pins: dict[str, Plan] = {}
        self._letters = iter("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        self._plan: Plan | None = None
        self._later = Later(PAUSE_SECONDS)
        self.button.on_click(lambda _button: self._pin())

    def show(self, plan: Plan) -> None:
        """Compare the pinned plans with this one."""
        self._plan = plan
        self._refresh()

    def _pin(self) -> None:
        if self._plan is None or len(self._pins) >= MOST_PINS:
            return
        letter = next(self._letters, None) or f"{len(self._pins) + 1}"
        self._pins[letter] = self._plan
        self._refresh()

    def _press(self, name: str, key: str) -> None:
        if key not in self._pins:
            return
        if name == "open":
            self._open(self._pins[key])
            return
        del self._pins[key]
        self._refresh()

    def _refresh(self) -> None:
        self.button.disabled = len(self._pins) >= MOST_PINS
        self.list.rows = [_row(letter, plan) for letter, plan in self._pins.items()]
        if not self._pins:
            self._later.cancel()
            self.children = (self.list, self.button)
            return
        self._later.run(self._draw)

    def _draw(self) -> None:
        from planner.charts.compared_bars import figure_spec  # noqa: PLC0415 - rare
        from planner.comparing.comparison import compare  # noqa: PLC0415 - rare
        from planner.presentation.comparison import spoken  # noqa: PLC0415 - rare
        from planner.presentation.comparison_html import (  # noqa: PLC0415 - rare
            comparison_html,
            comparison_style,
        )

        if self._plan is None:
            return
        compared = compare(*self._pins.values(), self._plan, names=[*self._pins, NOW])
        spec = figure_spec(compared)
        if self.chart is None:
            self.chart = PlotlyChart(figure=spec)
            self.chart.add_class("planner-compared-bars")
        with self.chart.hold_sync():
            self.chart.figure = spec
            self.chart.label = spoken(compared)
        style = f"<style>{comparison_style()}</style>"
        self.table.value = style + comparison_html(compared)
        shown: tuple[w.Widget, ...] = (self.list, self.button, self.chart, self.table)
        self.children = shown


def _row(letter: str, plan: Plan) -> Row:
    return {
        "key": letter,
        "title": f"{letter}: {plan.name} on {plan.gpu.name}",
        "code": plan.command().removeprefix(f"vllm serve {plan.name}").strip(),
        "actions": [action("open", "Open"), action("remove", "Remove")],
    }
