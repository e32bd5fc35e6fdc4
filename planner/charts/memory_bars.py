"""Stacked memory bars, one per GPU, with vLLM's budget and the GPU's total."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.charts.axes import layout
from planner.charts.layout import bars
from planner.charts.traces import edge_traces, line_traces
from planner.errors import PlannerError

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from planner.result import Plan

_LEGEND_PIXELS = 60


def figure(plan: Plan) -> go.Figure:
    """Draw `plan` as a plotly figure with a legend.

    Raises:
        PlannerError: when plotly is not installed.
    """
    try:
        import plotly.graph_objects as go  # noqa: PLC0415 - optional and slow
    except ImportError as error:
        raise PlannerError(
            "figure() needs plotly. Run: pip install 'vllm-memory-planner[app]'"
        ) from error
    described = figure_spec(plan)
    described["layout"] |= {
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "y": -0.3,
            "yref": "paper",
        },
        "height": described["layout"]["height"] + _LEGEND_PIXELS,
    }
    return go.Figure(described)


def figure_spec(plan: Plan) -> dict[str, Any]:
    """Describe the figure in plotly's JSON, without importing plotly.

    A page's kernel draws through this: plotly.js needs the values only, and the plotly
    package would cost each visitor a second and 60 MiB.
    """
    drawn = bars(plan)
    return {
        "data": [*line_traces(drawn), *edge_traces(plan, drawn)],
        "layout": layout(plan, drawn),
    }
