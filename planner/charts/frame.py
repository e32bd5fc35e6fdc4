"""What every chart of memory bars has around its bars, and how plotly gets it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from planner.charts.drawn import Drawn
from planner.charts.scale import BAR_PIXELS, FONT, INK
from planner.errors import PlannerError
from planner.in_browser import is_in_browser

if TYPE_CHECKING:
    import plotly.graph_objects as go

_BOTTOM_PIXELS = 44
_LEGEND = {"orientation": "h", "traceorder": "normal", "y": -0.3, "yref": "paper"}
_UNMEASURED = {"ticklabeloverflow": "allow", "tickangle": 0}
"""plotly measures each label otherwise, whether it fits, whenever a chart changes."""


def plotly_figure(
    described: dict[str, Any],
    *,
    legend_pixels: int,
    legend: Mapping[str, object] | None = None,
    showlegend: bool = True,
) -> go.Figure:
    """Return a described chart as a plotly figure with a legend below it.

    In a browser without plotly it is a `Drawn`, which shows the same.

    Args:
        described: data and layout, in plotly's JSON.
        legend_pixels: what the legend takes of the height, beside the chart's own.
        legend: what of the legend differs from the others'.
        showlegend: whether there is one.

    Raises:
        PlannerError: when plotly is not installed.
    """
    described["layout"] |= {
        "showlegend": showlegend,
        "legend": {**_LEGEND, **(legend or {})},
        "height": described["layout"]["height"] + legend_pixels,
    }
    if is_in_browser():
        return cast("go.Figure", Drawn(described=described))
    try:
        import plotly.graph_objects as go  # noqa: PLC0415 - optional and slow
    except ImportError as error:
        raise PlannerError(
            "figure() needs plotly. Run: pip install 'vllm-memory-planner[app]'"
        ) from error
    return go.Figure(described)


def bar_layout(
    labels: Sequence[str], *, gap_pixels: int, top_pixels: int
) -> dict[str, Any]:
    """Describe rows of stacked bars, named by `labels` from the top."""
    row = BAR_PIXELS + gap_pixels
    return {
        "barmode": "stack",
        "bargap": gap_pixels / row,
        "height": top_pixels + _BOTTOM_PIXELS + max(1, len(labels)) * row,
        "autosize": True,
        "showlegend": False,
        "template": None,
        "paper_bgcolor": "#00000000",
        "plot_bgcolor": "#00000000",
        "font": {"family": FONT, "size": 13, "color": INK},
        "margin": {"l": 8, "r": 16, "t": top_pixels, "b": _BOTTOM_PIXELS},
        "uniformtext": {"mode": "hide", "minsize": 11},
        "hoverlabel": {"align": "left", "font": {"family": FONT, "size": 12}},
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
    """Describe a line of text that stands at the left above a chart."""
    return {
        "x": 0,
        "y": 1,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": pixels,
        "align": "left",
        "showarrow": False,
        "text": text,
        "font": {"size": 12, "color": INK},
    }


def size_axis(kind: str, end_gib: float) -> dict[str, Any]:
    """Describe the axis of sizes, from nothing to a little beyond the longest bar."""
    return {
        "range": [0, end_gib * 1.015],
        "title": {
            "text": f"GiB per {kind}",
            "standoff": 6,
            "font": {"size": 12},
        },
        "gridcolor": "#80808033",
        "zeroline": False,
        "fixedrange": True,
        "nticks": 9,
        **_UNMEASURED,
    }
