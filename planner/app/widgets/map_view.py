"""The map of loads below the set-ups: which prompts and how many users a row serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from planner.app.widgets.background import SlicedJob
from planner.app.widgets.chart import PlotlyChart
from planner.solve.load_map import usual_map

if TYPE_CHECKING:
    import ipywidgets as w

    from planner.planning.inputs import Inputs
    from planner.planning.load import Load
    from planner.solve.load_map import LoadMap

STALE = "is-stale"
"""The class of a map of an earlier plan."""


class MapView:
    """A chart that is made when there is something to draw; planned in slices."""

    def __init__(
        self, redraw: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        self.chart: PlotlyChart | None = None
        self._redraw, self._failed = redraw, failed
        self._slices = SlicedJob()

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the chart, if there is one."""
        return () if self.chart is None else (self.chart,)

    @property
    def is_running(self) -> bool:
        """Whether a map is being planned."""
        return self._slices.is_running

    def give_up(self) -> None:
        """Draw no more, and mark what stands there as that of an earlier plan."""
        self._slices.cancel()
        if self.chart is not None:
            self.chart.add_class(STALE)

    def draw(self, start: Inputs, load: Load) -> None:
        """Plan the loads around this one, then draw them."""
        self.give_up()
        found = usual_map(start, load)
        self._slices.start(
            found.steps(),
            lambda: None,
            lambda: self._show(found.result()),
            self._failed,
        )

    def hide(self) -> None:
        """Take the chart off the page."""
        self._slices.cancel()
        if self.chart is not None:
            self.chart = None
            self._redraw()

    def _show(self, found: LoadMap) -> None:
        from planner.show.charts.load_map import figure_spec  # noqa: PLC0415 - once it is open
        from planner.show.load_map import spoken_map  # noqa: PLC0415 - once it is open

        was_hidden = self.chart is None
        if self.chart is None:
            self.chart = PlotlyChart()
            self.chart.add_class("planner-load-map")
        self.chart.remove_class(STALE)
        self.chart.draw(figure_spec(found), spoken_map(found))
        if was_hidden:
            self._redraw()
