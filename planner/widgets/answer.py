"""The answer to the controls, as few messages to the page as there are.

A step of a slider changes the bars, the verdict and the figures: they travel together,
in one update of one widget.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from planner.charts.memory_bars import page_spec
from planner.presentation import tables
from planner.presentation.page import style
from planner.presentation.panels import panels_html
from planner.presentation.text import spoken
from planner.widgets.chart import PlotlyChart
from planner.widgets.guard import alert_html
from planner.widgets.static_files import script, sheet

if TYPE_CHECKING:
    from planner.result import Plan

log = logging.getLogger(__name__)


class Answer(PlotlyChart):
    """Verdict, bars, figures and vLLM's words about the last good plan."""

    _esm = script("connected.js", "draw.js", "parts.js", "answer.js")
    _css = style() + sheet("chart.css", "explorer.css")

    parts = traitlets.Dict().tag(sync=True)
    """HTML by name: verdict, stale, figures, alert, error; the command and the panels,
    which stand in a `Place` each."""

    def __init__(self) -> None:
        super().__init__(figure={"data": [], "layout": {"height": 160}})

    def show(self, plan: Plan, opened: Collection[str] = ()) -> None:
        """Replace what is shown by `plan`; `opened` are the panels that are open."""
        with self.hold_sync():
            self.figure = page_spec(plan)
            self.label = spoken(plan)
            self.parts = {
                "verdict": tables.verdict_html(plan),
                "figures": tables.figures_html(plan)
                or tables.no_figures_html(plan.gpu.kind),
                "error": tables.error_html(plan),
                "alert": "",
                "stale": "",
                "command": tables.command_html(plan),
                **panels_html(plan, opened),
            }

    def show_panels(self, plan: Plan, opened: Collection[str]) -> None:
        """Write the panels anew, of which these are open now."""
        self.parts = self.parts | panels_html(plan, opened)

    @property
    def alert(self) -> str:
        """The message that is shown now, as HTML; empty where there is none."""
        return str(self.parts.get("alert", ""))

    def say(self, message: str, *, is_stale: bool = True) -> None:
        """Show a message beside the plan; `is_stale` says that it is the last good one.

        An empty message is for what a field says itself. The next plan clears both.
        """
        parts = self.parts | {
            "alert": alert_html(message) if message else "",
            "stale": _STALE if is_stale else "",
        }
        if parts != self.parts:
            self.parts = parts


_STALE = "<span class='pl-stale'>Last good plan</span>"


class Place(anywidget.AnyWidget):
    """Where parts of the answer stand that are not beside its chart.

    The answer fills it, so that a step stays one update. `opened` hears of panels that
    a reader opens and closes.
    """

    _esm = script("connected.js", "parts.js", "place.js")

    names: Any = traitlets.List().tag(sync=True)
    """The parts, in their order."""

    def __init__(
        self, *names: str, opened: Callable[[str, bool], None] | None = None
    ) -> None:
        super().__init__(names=list(names))
        self._opened = opened
        self.on_msg(self._heard)

    def _heard(self, _widget: object, content: object, _buffers: object) -> None:
        match content:
            case {"panel": str(key), "open": bool(is_open)} if self._opened:
                self._opened(key, is_open)
            case _:
                log.warning("a page sent what opens no panel")
