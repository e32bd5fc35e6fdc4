"""A plotly figure as a widget, the page's address, and the explorer as plain HTML.

plotly's own FigureWidget sends 5 MB of JavaScript through every kernel's socket and
echoes 20 kB per update; `docs/performance.md` has both measurements. `PlotlyChart`
sends only the figure's JSON. plotly.js is a static file in the app; in JupyterLab the
kernel sends it once per page.

The page shows the plain HTML until its controls work: the app's page draws the figure
in it at once (`answer.js` takes that chart over), and a viewer without widgets shows
the rest.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from planner.app.widgets import static_files
from planner.app.widgets.static_files import script, sheet
from planner.show import tables
from planner.show.charts.memory_bars import page_spec
from planner.show.html import Content, Html, fragment, tag
from planner.show.page import OPEN_AT_FIRST, panels_html, style

if TYPE_CHECKING:
    from planner.planning.result import Plan

log = logging.getLogger(__name__)


class PlotlyChart(anywidget.AnyWidget):
    """Shows a figure given as plotly's JSON; setting `figure` redraws it in place."""

    _esm = script("chart.js")
    _css = sheet("chart.css")

    figure = traitlets.Dict().tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    """The text for screen readers."""

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self.on_msg(self._answer)

    def _answer(self, _widget: object, content: object, _buffers: object) -> None:
        """Send plotly.js to a page that requests it."""
        if content == "plotly.js":
            self.send("plotly.js", buffers=[static_files.for_page()])


class Address(anywidget.AnyWidget):
    """Passes the page's query to `opened`; setting `query` changes the address."""

    _esm = script("address.js")

    query = traitlets.Unicode().tag(sync=True)
    """Such as "?model=...&gpu=H100"; the address changes only when this does."""

    def __init__(self, opened: Callable[[str], None]) -> None:
        super().__init__()
        self._opened = opened
        self.on_msg(self._on_message)

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        match content:
            case {"opened": str(query)}:
                self._opened(query)
            case _:
                log.warning("a page sent an invalid address")


def snapshot_html(plan: Plan) -> Html:
    """Show a plan in the explorer's own layout, without controls."""
    figure = json.dumps(page_spec(plan)).replace("<", "\\u003c")
    answer = {
        "verdict": tables.verdict_html(plan),
        "bars": fragment(
            _div("planner-first-chart"),
            tag("script", Html(figure), type="application/json"),
        ),
        "figures": tables.figures_html(plan) or tables.no_figures_html(plan.gpu.kind),
        "error": tables.error_html(plan),
    }
    first = (
        _div("planner-answer", _parts(answer)),
        _div("planner-advice"),
        _div("planner-parts", _parts({"command": tables.command_html(plan)})),
    )
    more = _div("planner-parts", _parts(panels_html(plan, OPEN_AT_FIRST)))
    return _div(
        "planner-snapshot planner-explorer",
        tag("style", style(), Html(sheet("chart.css", "explorer.css"))),
        _div(
            "planner-body",
            _div("planner-paste"),
            _div("planner-controls"),
            _div(
                "planner-results",
                _div("planner-first", first),
                _div("planner-more", more),
            ),
        ),
    )


def _div(class_: str, *content: Content) -> Html:
    return tag("div", content, class_=class_)


def _parts(parts: dict[str, Html]) -> list[Html]:
    return [
        _div(f"planner-{name} pl-plan", part) for name, part in parts.items() if part
    ]


def chart_mimebundle(
    figure: dict[str, Any], label: str, options: dict[str, Any]
) -> object:
    """Return a notebook's output for a figure where plotly is not installed."""
    chart = PlotlyChart(figure=figure, label=label)
    return chart._repr_mimebundle_(**options)
