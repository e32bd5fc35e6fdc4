"""A plotly figure as a widget, the answer around one, and the explorer as plain HTML.

plotly's own FigureWidget sends 5 MB of JavaScript through every kernel's socket and
echoes 20 kB per update. `PlotlyChart` sends only the figure's JSON. plotly.js is a
static file in the app; in JupyterLab the kernel sends it once per page.

A step of a slider changes the bars, the verdict and the figures: one update of one
widget, the `AnswerChart`, sends them together.

The page shows the plain HTML until its controls work: the app's page draws the figure
in it at once (`answer.js` takes that chart over), and a viewer without widgets shows
the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeAlias

import traitlets

from planner.app.widgets import static_files
from planner.app.widgets.callbacks import alert_html
from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.static_files import script, sheet
from planner.show import tables
from planner.show.boxes import strip
from planner.show.charts.parts import spoken
from planner.show.charts.picture import page_spec
from planner.show.document import style
from planner.show.html import Content, Html, fragment, tag
from planner.show.page import OPEN_AT_FIRST, panels_html, plan_html

if TYPE_CHECKING:
    from planner.planning.result import Plan

Bundle: TypeAlias = dict[str, Any]
_VIEW = "application/vnd.jupyter.widget-view+json"
_NO_WIDGETS = (
    "The controls of the explorer need Jupyter's widgets, which this page does not "
    "show. This is its plan as it is now; planner.plan(...) and %plan compute others "
    "without them."
)

_STALE = tag("span", "Last good plan", class_="pl-stale")


class PlotlyChart(PageWidget):
    """Shows a figure given as plotly's JSON; setting `figure` redraws it in place."""

    _esm = script("chart.js")
    _css = sheet("chart.css")
    called = "chart"

    figure = traitlets.Dict().tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    """The text for screen readers."""

    def live_view(self, model_id: str) -> tuple[Bundle, Bundle]:
        """Return the output that shows a widget: data and metadata by MIME type.

        Colab shows a widget that is not ipywidgets' own, or one that contains such,
        only with the metadata that anywidget writes.
        """
        written: Any = self._repr_mimebundle_()
        shown, *described = written
        view = {**shown[_VIEW], "model_id": model_id}
        return shown | {_VIEW: view}, described[0] if described else {}

    def draw(self, figure: dict[str, Any], label: str) -> None:
        """Show another figure, and its text for screen readers."""
        with self.hold_sync():
            self.figure, self.label = figure, label

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Send plotly.js to a page that requests it."""
        if message != "plotly.js":
            return False
        self.send("plotly.js", buffers=[static_files.for_page()])
        return True


class AnswerChart(PlotlyChart):
    """Verdict, bars, figures and vLLM's message of the last good plan."""

    _esm = script("answer.js")
    _css = style() + sheet("chart.css", "explorer.css")

    parts = traitlets.Dict().tag(sync=True)
    """HTML by name: verdict, stale, figures, alert, error, and the command and the
    panels, each of which is shown by a `PanelsPlace`."""

    def __init__(self) -> None:
        super().__init__(figure={"data": [], "layout": {"height": 160}})
        self.is_empty = True
        """Whether no plan is shown, in grey or otherwise."""

    def show(
        self,
        plan: Plan,
        opened: Collection[str] = (),
        seen: Collection[str] | None = None,
    ) -> None:
        """Show `plan`; of the panels `seen` on the page, `opened` are open."""
        self.is_empty = False
        with self.hold_sync():
            self.figure = page_spec(plan)
            self.label = spoken(plan)
            self.parts = {
                "verdict": tables.verdict_html(plan),
                "figures": tables.figures_html(plan),
                "error": tables.error_html(plan),
                "alert": "",
                "stale": "",
                "strip": strip(plan),
                "command": tables.command_html(plan),
                **panels_html(plan, opened, seen),
            }

    def clear(self) -> None:
        """Show no plan: that of other inputs is no answer."""
        self.is_empty = True
        self.label = ""
        self.parts = dict.fromkeys(self.parts, "")

    def show_panels(
        self,
        plan: Plan,
        opened: Collection[str],
        seen: Collection[str] | None = None,
    ) -> None:
        """Write the panels again, with these open."""
        self.parts = self.parts | panels_html(plan, opened, seen)

    @property
    def alert(self) -> str:
        """The current message as HTML; empty without one."""
        return str(self.parts.get("alert", ""))

    @property
    def is_stale(self) -> bool:
        """Whether what is shown is not for what the controls ask for now."""
        return self.is_empty or bool(self.parts.get("stale"))

    def say(self, message: str, *, is_stale: bool = True) -> None:
        """Show a message above the plan; with `is_stale`, mark the plan as outdated.

        The next plan clears both.
        """
        self._say(alert_html(message) if message else "", is_stale=is_stale)

    def wait(self, reason: str, shown: str) -> None:
        """Say why the plan is not for the controls yet, which is no error.

        A field has spoken: nothing here is read out again. `shown` names the plan.
        """
        if self.is_empty:
            asked = {"alert": "", "verdict": tag("p", reason, class_="pl-question")}
            self.parts = self.parts | asked
            return
        kept = f" Shown below, in grey: {shown}, the last good plan." if shown else ""
        self._say(tag("p", f"{reason}{kept}", class_="pl-alert pl-spoken"))

    def _say(self, alert: str, *, is_stale: bool = True) -> None:
        parts = self.parts | {"alert": alert, "stale": _STALE if is_stale else ""}
        if self.is_empty:
            parts |= {"stale": "", "verdict": ""}
        if parts != self.parts:
            self.parts = parts


class PanelsPlace(PageWidget):
    """Shows parts of the answer elsewhere than beside its chart.

    The answer's script fills it, so that a step stays one update. `opened` is called
    when a reader opens or closes a panel.
    """

    _esm = script("place.js")
    called = "panels"

    names: Any = traitlets.List().tag(sync=True)
    """The parts to show, in order."""

    def __init__(
        self, *names: str, opened: Callable[[str, bool], None] | None = None
    ) -> None:
        super().__init__(names=list(names))
        self._opened = opened

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Pass on which panel was opened or closed."""
        match message:
            case {"panel": str(key), "open": bool(is_open)} if self._opened:
                self._opened(key, is_open)
                return True
        return False


def snapshot_html(plan: Plan) -> Html:
    """Show a plan in the explorer's own layout, without controls."""
    figure = json.dumps(page_spec(plan)).replace("<", "\\u003c")
    answer = {
        "verdict": tables.verdict_html(plan),
        "bars": fragment(
            _div("planner-first-chart"),
            tag("script", Html(figure), type="application/json"),
        ),
        "figures": tables.figures_html(plan),
        "error": tables.error_html(plan),
    }
    written = panels_html(plan, OPEN_AT_FIRST)
    notes = {"panel-notes": written.pop("panel-notes")}
    first = (
        _div("planner-answer", _parts(answer)),
        _div("planner-parts", _parts({"command": tables.command_html(plan), **notes})),
    )
    panels = _div("planner-parts", _parts(written))
    return _div(
        "planner-snapshot planner-explorer",
        tag("style", style(), Html(sheet("chart.css", "explorer.css"))),
        _div(
            "planner-body",
            _div("planner-header"),
            _div("planner-paste"),
            _div("planner-left"),
            _div(
                "planner-results",
                _div("planner-first", first),
                _div("planner-more", _div("pl-tabs"), panels),
            ),
        ),
    )


def without_widgets(plan: Plan) -> Html:
    """Show a plan whole, for a notebook that cannot run the explorer's controls."""
    return fragment(tag("p", tag("em", _NO_WIDGETS)), plan_html(plan))


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
