"""Stacked memory bars, one per GPU, with vLLM's budget and the GPU's total."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.charts.axes import layout
from planner.charts.frame import plotly_figure
from planner.charts.host_bars import with_hosts
from planner.charts.layout import bars
from planner.charts.one_trace import as_one_trace
from planner.charts.traces import edge_traces, line_traces

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from planner.result import Plan

_LEGEND_PIXELS = 60


def figure(plan: Plan) -> go.Figure:
    """Draw `plan` as a plotly figure with a legend.

    Raises:
        PlannerError: when plotly is not installed.
    """
    return plotly_figure(figure_spec(plan), legend_pixels=_LEGEND_PIXELS)


def page_spec(plan: Plan) -> dict[str, Any]:
    """Describe the bars for a page, which redraws them while a slider moves."""
    return as_one_trace(figure_spec(plan))


def figure_spec(plan: Plan) -> dict[str, Any]:
    """Describe the figure in plotly's JSON, without importing plotly.

    A page's kernel draws through this: plotly.js needs the values only, and the plotly
    package would cost each visitor a second and 60 MiB.
    """
    drawn = bars(plan)
    spec = {
        "data": [*line_traces(drawn), *edge_traces(plan, drawn)],
        "layout": layout(plan, drawn),
    }
    return with_hosts(spec, plan)
