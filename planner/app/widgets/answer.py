"""The plan's results on the page, with as few messages as possible.

A step of a slider changes the bars, the verdict and the figures: one update of one
widget sends them together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from planner.app.widgets.callbacks import alert_html
from planner.app.widgets.chart import PlotlyChart
from planner.app.widgets.static_files import script, sheet
from planner.show import tables
from planner.show.charts.memory_bars import page_spec
from planner.show.html import tag
from planner.show.page import panels_html, style
from planner.show.verdict import spoken

if TYPE_CHECKING:
    from planner.planning.result import Plan

log = logging.getLogger(__name__)
_STALE = tag("span", "Last good plan", class_="pl-stale")


class Answer(PlotlyChart):
    """Verdict, bars, figures and vLLM's message of the last good plan."""

    _esm = script("answer.js")
    _css = style() + sheet("chart.css", "explorer.css")

    parts = traitlets.Dict().tag(sync=True)
    """HTML by name: verdict, stale, figures, alert, error, and the command and the
    panels, each of which is shown by a `Place`."""

    def __init__(self) -> None:
        super().__init__(figure={"data": [], "layout": {"height": 160}})

    def show(self, plan: Plan, opened: Collection[str] = ()) -> None:
        """Show `plan`; `opened` are the panels that are open."""
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
        """Write the panels again, with these open."""
        self.parts = self.parts | panels_html(plan, opened)

    @property
    def alert(self) -> str:
        """The current message as HTML; empty without one."""
        return str(self.parts.get("alert", ""))

    def say(self, message: str, *, is_stale: bool = True) -> None:
        """Show a message beside the plan; with `is_stale`, mark the plan as outdated.

        The message is empty where a field shows the error. The next plan clears both.
        """
        parts = self.parts | {
            "alert": alert_html(message) if message else "",
            "stale": _STALE if is_stale else "",
        }
        if parts != self.parts:
            self.parts = parts


class Place(anywidget.AnyWidget):
    """Shows parts of the answer elsewhere than beside its chart.

    The answer's script fills it, so that a step stays one update. `opened` is called
    when a reader opens or closes a panel.
    """

    _esm = script("place.js")

    names: Any = traitlets.List().tag(sync=True)
    """The parts to show, in order."""

    def __init__(
        self, *names: str, opened: Callable[[str, bool], None] | None = None
    ) -> None:
        super().__init__(names=list(names))
        self._opened = opened
        self.on_msg(self._on_message)

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        match content:
            case {"panel": str(key), "open": bool(is_open)} if self._opened:
                self._opened(key, is_open)
            case _:
                log.warning("a page sent what opens no panel")
