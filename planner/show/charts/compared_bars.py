"""Stacked bars of several plans on one axis, each with its own budget and total."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.show.charts.frame import (
    BAR_PIXELS,
    LABEL,
    Bar,
    bar_layout,
    edge_line,
    end_bytes,
    in_gib,
    plotly_figure,
    size_axis,
)
from planner.show.charts.traces import edges_of, empty_gpus, line_traces
from planner.show.compared_plans import budget_text, verdict_text

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from planner.planning.result import Plan
    from planner.solve.comparing.comparison import Comparison

_LEGEND_PIXELS = 80
_TOP_PIXELS = 14
_LABEL_PIXELS = 40
"""Two lines of text above each bar."""
_GAP_PIXELS = _LABEL_PIXELS + 18
_LEGEND_AT_PIXELS = 46
_PLAIN = ("outside vLLM's budget", "nothing allocated")
"""Grey, and named only by the hover label: a narrow legend has no room for them."""
_OVERHANG_PIXELS = 4
"""How far the lines of a plan extend beyond its bar."""


def figure(comparison: Comparison) -> go.Figure:
    """Draw a comparison as a plotly figure with a legend.

    Raises:
        PlannerError: when plotly is not installed.
    """
    spec = figure_spec(comparison)
    for trace in spec["data"]:
        if trace["name"] in _PLAIN:
            trace["showlegend"] = False
    # Below the title of the axis for any number of bars.
    row = BAR_PIXELS + _GAP_PIXELS
    at = -_LEGEND_AT_PIXELS / (row * len(comparison.plans))
    spec["layout"]["legend"] = {"y": at, "x": 0}
    return plotly_figure(spec, _LEGEND_PIXELS)


def figure_spec(comparison: Comparison) -> dict[str, Any]:
    """Describe the figure in plotly's JSON, without importing plotly."""
    drawn = tuple(
        (plan, Bar(label=name, rank=plan.limiting_rank, num_gpus=plan.gpus_total))
        for name, plan in _named(comparison)
        if plan.limiting_rank is not None
    )
    empty = {
        name: plan for name, plan in _named(comparison) if plan.limiting_rank is None
    }
    bars = tuple(bar for _, bar in drawn)
    edges = edges_of(drawn) if drawn else []
    return {
        "data": [*line_traces(bars), *edges, *([empty_gpus(empty)] if empty else [])],
        "layout": _layout(comparison),
    }


def _named(comparison: Comparison) -> zip[tuple[str, Plan]]:
    return zip(comparison.names, comparison.plans, strict=True)


def _layout(comparison: Comparison) -> dict[str, Any]:
    rows = bar_layout(
        list(comparison.names), gap_pixels=_GAP_PIXELS, top_pixels=_TOP_PIXELS
    )
    kinds = {plan.gpu.kind for plan in comparison.plans}
    kind = kinds.pop() if len(kinds) == 1 else "GPU or CPU"
    end = max(end_bytes(plan, plan.limiting_rank) for plan in comparison.plans)
    return {
        **rows,
        # The names are above the bars, where a narrow page has room for them.
        "yaxis": {
            **rows["yaxis"],
            "showticklabels": False,
            "range": [len(comparison.plans) - 0.5, -0.5],
            "autorange": False,
        },
        "xaxis": size_axis(kind, in_gib(end)),
        "shapes": [
            line
            for number, plan in enumerate(comparison.plans)
            for line in _edge_lines(number, plan)
        ],
        "annotations": [
            _label(name, plan, number)
            for number, (name, plan) in enumerate(_named(comparison))
        ],
    }


def _edge_lines(number: int, plan: Plan) -> list[dict[str, Any]]:
    """Mark the ends of a plan's budget and of its GPU across its bar."""
    rank = plan.limiting_rank
    edges = [(plan.gpu.total_memory_bytes, "solid")]
    if rank is not None:
        edges.append((rank.requested_memory_bytes, "dash"))
    half = (BAR_PIXELS / 2 + _OVERHANG_PIXELS) / (BAR_PIXELS + _GAP_PIXELS)
    place = {"y0": number - half, "y1": number + half}
    return [edge_line(size_bytes, dash, place) for size_bytes, dash in edges]


def _label(name: str, plan: Plan, number: int) -> dict[str, Any]:
    """Write the plan's name, verdict and budget above its bar."""
    plain = name.replace("<", "&lt;")
    return {
        **LABEL,
        "x": 0,
        "y": number,
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": BAR_PIXELS / 2 + 2,
        "align": "left",
        "text": f"<b>{plain}</b>  {verdict_text(plan)}<br>{budget_text(plan)}",
    }
