"""What the charts share: the bars, their layout, and the plotly figure.

In a browser, where plotly for Python is not installed, a figure is a `Drawn`: the page
gets the chart in plotly's JSON and draws it with the plotly.js of the explorer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, ParamSpec, cast

from planner.errors import PlannerError
from planner.registries import provided
from planner.show.kv_cache import drawn_lines
from planner.show.palette import CLEAR, GRID
from planner.show.verdict import missing_bytes
from planner.surroundings import is_in_browser, is_in_voila
from planner.units import GIB
from planner.values import frozen

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from planner.memory.estimate import RankMemory
    from planner.planning.result import Plan

INK = "#767676"
"""Legible on white and on near-black; a page with a theme replaces it by its own."""
FONT = (
    "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Liberation Sans', sans-serif"
)
BAR_PIXELS = 42
GAP_PIXELS = 40
"""Half of it, below a bar, is always reserved for a label: a plan that no longer fits
moves nothing on the page."""
_BOTTOM_PIXELS = 44
AXIS = {"gridcolor": GRID, "zeroline": False, "fixedrange": True}
LABEL = {"showarrow": False, "font": {"size": 12, "color": INK}}
"""What a text in a chart has besides its place."""
_LEGEND = {"orientation": "h", "traceorder": "normal", "y": -0.3, "yref": "paper"}
_Given = ParamSpec("_Given")
_UNMEASURED = {"ticklabeloverflow": "allow", "tickangle": 0}
"""Otherwise plotly measures whether each label fits whenever a chart changes."""


@frozen
class Drawn:
    """A chart in plotly's JSON; a notebook shows it as the last value of a cell."""

    described: dict[str, Any]

    def to_plotly_json(self) -> dict[str, Any]:
        """Return data and layout, like plotly's own figures."""
        return self.described

    @property
    def label(self) -> str:
        """The text that a screen reader reads instead of the picture."""
        traces = [one for one in self.described["data"] if one.get("showlegend", True)]
        names = dict.fromkeys(one["name"] for one in traces if one.get("name"))
        return f"Chart: {', '.join(names)}." if names else "Chart."

    def _repr_mimebundle_(self, **options: Any) -> Any:  # noqa: ANN401 - anywidget's
        return provided(ChartShower).mimebundle(self.described, self.label, options)


@frozen
class ChartShower:
    """Shows a chart without plotly for Python: a widget."""

    mimebundle: Callable[[dict[str, Any], str, dict[str, Any]], object]
    """Of the chart in plotly's JSON, its label, and the notebook's options."""


def in_gib(size_bytes: int) -> float:
    """Return a size for drawing; three decimals of a GiB are finer than a pixel."""
    return round(max(size_bytes, 0) / GIB, 3)


def drawer(
    describe: Callable[_Given, dict[str, Any]], legend_pixels: int = 0
) -> Callable[_Given, go.Figure]:
    """Return what draws a value, from what describes it in plotly's JSON."""

    def draw(*given: _Given.args, **named: _Given.kwargs) -> go.Figure:
        return plotly_figure(describe(*given, **named), legend_pixels)

    return draw


def end_bytes(plan: Plan, rank: RankMemory | None) -> int:
    """Return where a rank's bar ends, or its GPU if that is further."""
    total = plan.gpu.total_memory_bytes
    if rank is None:
        return total
    return max(total, rank.requested_memory_bytes + missing_bytes(plan, rank))


def plotly_figure(described: dict[str, Any], legend_pixels: int = 0) -> go.Figure:
    """Return a described chart as a plotly figure, with a legend below it.

    In a browser without plotly it is a `Drawn`, which shows the same. In Voilà it is a
    `FigureWidget`.

    Args:
        described: data and layout, in plotly's JSON.
        legend_pixels: height of the legend, added to that of the chart; 0: the layout
            says whether there is one.

    Raises:
        PlannerError: when plotly is not installed.
    """
    layout = described["layout"]
    layout |= {
        "showlegend": layout["showlegend"] or legend_pixels > 0,
        "legend": {**_LEGEND, **layout.get("legend", {})},
        "height": layout["height"] + legend_pixels,
    }
    if is_in_browser():
        return cast("go.Figure", Drawn(described=described))
    try:
        import plotly.graph_objects as go  # noqa: PLC0415 - optional and slow
    except ImportError as error:
        raise PlannerError(
            "figure() needs plotly. Run: pip install 'vllm-memory-planner[notebook]'"
        ) from error
    # Plotly's own renderer stores an image of the figure in the page's output, which
    # is plain JSON in Voilà and has no method for that: an error in each page.
    # Source: plotly 7.1 mimeExtension.js createGraph; voila 0.5 plugin render-outputs.
    return go.FigureWidget(described) if is_in_voila() else go.Figure(described)


def base_layout(height: int, top_pixels: int, bottom_pixels: int) -> dict[str, Any]:
    """Describe what the layouts of all charts share."""
    return {
        "height": height,
        "autosize": True,
        "showlegend": False,
        "template": None,
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"family": FONT, "size": 13, "color": INK},
        "margin": {"l": 8, "r": 16, "t": top_pixels, "b": bottom_pixels},
        "hoverlabel": {"align": "left", "font": {"family": FONT, "size": 12}},
    }


def bar_layout(
    labels: Sequence[str],
    *,
    gap_pixels: int,
    top_pixels: int,
    bar_pixels: int = BAR_PIXELS,
) -> dict[str, Any]:
    """Describe rows of stacked bars, named by `labels` from the top."""
    row = bar_pixels + gap_pixels
    return {
        **base_layout(
            top_pixels + _BOTTOM_PIXELS + max(1, len(labels)) * row,
            top_pixels,
            _BOTTOM_PIXELS,
        ),
        "barmode": "stack",
        "bargap": gap_pixels / row,
        "uniformtext": {"mode": "hide", "minsize": 11},
        "yaxis": {
            "autorange": "reversed",
            "automargin": True,
            "fixedrange": True,
            "ticks": "",
            "ticklabelstandoff": 6,
            **_UNMEASURED,
            "categoryorder": "array",
            "categoryarray": list(labels),
        },
    }


def note_above(text: str, *, pixels: int = 4) -> dict[str, Any]:
    """Describe a line of text above a chart, at its left."""
    return {
        **LABEL,
        "x": 0,
        "y": 1,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": pixels,
        "align": "left",
        "text": text,
    }


def edge_line(
    size_bytes: int, dash: str, place: Mapping[str, object] = {"yref": "paper"}
) -> dict[str, Any]:
    """Describe a line across bars at a size; `place` says where, if not across all."""
    return {
        "type": "line",
        "x0": in_gib(size_bytes),
        "x1": in_gib(size_bytes),
        "y0": 0,
        "y1": 1,
        **place,
        "line": {"color": INK, "width": 2, "dash": dash},
    }


def edge_label(
    size_bytes: int, text: str, axis_bytes: int, row: int = 0
) -> dict[str, Any]:
    """Describe a label above such a line, anchored so that the chart has room for it.

    Labels in rows of their own never overlap.
    """
    return {
        **LABEL,
        "x": in_gib(size_bytes),
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "xanchor": ("left", "center", "right")[min(2, 3 * size_bytes // axis_bytes)],
        "yshift": 2 + 18 * row,
        "text": text,
    }


def titled(text: str) -> dict[str, Any]:
    """Describe the title of an axis below it."""
    return {"title": {"text": text, "standoff": 6, "font": {"size": 12}}}


def size_axis(kind: str, end_gib: float) -> dict[str, Any]:
    """Describe the axis of sizes, from 0 to a little beyond the longest bar."""
    return {
        **AXIS,
        **titled(f"GiB per {kind}"),
        "range": [0, end_gib * 1.015],
        "nticks": 9,
        **_UNMEASURED,
    }


@frozen
class Bar:
    """One bar: its label, the account that it shows, and its number of GPUs."""

    label: str
    rank: RankMemory
    num_gpus: int


def bars(plan: Plan) -> tuple[Bar, ...]:
    """Return one bar for all GPUs with the same account, in the order of the stages.

    The ranks of a stage are alike, and so are the engines of data parallelism; pipeline
    stages differ where their layers do. Each GPU is counted in one bar.
    """
    groups = [list(group) for _, group in groupby(plan.ranks, _account)]
    return tuple(_bar(plan, group) for group in groups)


def _account(rank: RankMemory) -> tuple[tuple[str, int, int, int], ...]:
    """Return what a bar shows of a rank; the arithmetic behind it may differ."""
    return tuple(
        (line.name, line.size_bytes, line.low_bytes, line.high_bytes)
        for line in drawn_lines(rank)
    )


def _bar(plan: Plan, group: list[RankMemory]) -> Bar:
    num_gpus = len(group) * (plan.gpus_total // len(plan.ranks))
    count = f"{num_gpus} x {plan.gpu.name}" if num_gpus > 1 else plan.gpu.name
    return Bar(label=_stages(plan, group) + count, rank=group[0], num_gpus=num_gpus)


def _stages(plan: Plan, group: list[RankMemory]) -> str:
    if len(plan.ranks) == 1:
        return ""
    first, last = group[0].pp_rank, group[-1].pp_rank
    return f"stage {first}: " if first == last else f"stages {first}-{last}: "
