"""The Compare tab: pinned plans, and the current one on other GPUs with prices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import ipywidgets as w

from planner.app.widgets.actions import ActionList, Row, action
from planner.app.widgets.callbacks import guarded
from planner.app.widgets.chart import PlotlyChart
from planner.app.widgets.section import Fold, Section, tables_view
from planner.show.html import tag
from planner.show.sheet import pinned

if TYPE_CHECKING:
    from planner.planning.result import Plan

MOST_PINS = 5
"""More bars than this cannot be compared at a glance."""
PAUSE_SECONDS = 0.1
GPUS_PAUSE_SECONDS = 0.4
MOST_GPUS = 12
USUAL_GPUS = "L4, L40S, H100"
NOW = "now"
_PIN_ROW: Row = {
    "key": NOW,
    "title": "The plan on the screen",
    "detail": "Pin it, change the controls, and see both side by side.",
    "actions": [action("pin", "Pin this plan")],
}


class GPUsFold(Fold):
    """The plan's model and load on some kinds of GPU, side by side with prices."""

    def __init__(self) -> None:
        super().__init__("The same on other GPUs", "other-gpus", GPUS_PAUSE_SECONDS)
        self._guarded_draw = guarded(self._say)(self._draw)

    @cached_property
    def names(self) -> w.Text:
        """The kinds of GPU, as one types them."""
        entry = w.Text(
            value=USUAL_GPUS, description="GPUs", placeholder="L4, L40S, H100"
        )
        entry.observe(lambda _change: self.refresh(), names="value")
        return entry

    @cached_property
    def view(self) -> w.HTML:
        """The table; created when it is first opened."""
        return tables_view()

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the entry and the table."""
        return (self.names, self.view)

    def refresh(self) -> None:
        """Compare the GPUs, once the user pauses."""
        self._later.run(self._guarded_draw)

    def _say(self, text: str) -> None:
        """Show the error of a callback; the guard clears it with an empty text."""
        if text:
            self.view.value = tag("p", text, class_="pl-note")

    def _draw(self) -> None:
        if self._plan is None or not self.is_open:
            return
        from planner.show.compared_gpus import sheet  # noqa: PLC0415 - once it is open
        from planner.solve.comparing.gpus import compare_gpus  # noqa: PLC0415 - once it is open
        from planner.solve.price_list import gpu_prices  # noqa: PLC0415 - once it is open

        names = [name.strip() for name in self.names.value.split(",") if name.strip()]
        known = gpu_prices()
        found = compare_gpus(
            self._plan,
            names[:MOST_GPUS],
            {name: price.per_hour for name, price in known.prices.items()},
            currency=known.currency,
        )
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
    def gpus(self) -> GPUsFold:
        """The plan on other GPUs; created when the tab is first opened."""
        return GPUsFold()

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the list, the comparison where there is one, and other GPUs."""
        drawn = () if self.chart is None or not self._pins else (self.chart, self.table)
        return (self.list, *drawn, self.gpus)

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
            self.gpus.show(self._plan)
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
