"""A plan as a plotly figure: a bar for all GPUs that are alike, with sizes in a legend.

The bars have vLLM's budget and the GPU's total; `host_bars` adds those of the machines.
The page draws the same bars another way (`picture`).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from planner.show.charts.frame import (
    GAP_PIXELS,
    INK,
    LABEL,
    Bar,
    bar_layout,
    bars,
    edge_label,
    edge_line,
    end_bytes,
    in_gib,
    plotly_figure,
    size_axis,
)
from planner.show.charts.host_bars import with_hosts
from planner.show.charts.parts import host_sizes_by_name, sizes_by_name
from planner.show.charts.picture import HERO_PIXELS, budget_label
from planner.show.charts.traces import (
    SOFT,
    edge_traces,
    line_traces,
    soft_traces,
    wrapped,
)
from planner.show.verdict import missing_bytes, subject, verdict_text
from planner.units import format_gib

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from planner.planning.result import Plan


_TOP_PIXELS = 46
_TITLE_PIXELS = 58
_TITLE_AT_PIXELS = 16
_BESIDE_PIXELS = 6
_LEGEND_PIXELS = 24
_ENTRY_PIXELS = 20
"""Of two entries beside each other."""
_LEGEND_AT_PIXELS = 46
"""Below the bars: under the axis and its title."""
_LABEL_SHARE = 0.4
"""Share of a narrow chart's width that a label takes: 120 of 300 pixels."""


def layout(plan: Plan, drawn: tuple[Bar, ...]) -> dict[str, Any]:
    """Describe everything except the segments."""
    rows = bar_layout(
        [bar.label for bar in drawn],
        gap_pixels=GAP_PIXELS,
        top_pixels=_TOP_PIXELS,
        bar_pixels=HERO_PIXELS,
    )
    end = max(end_bytes(plan, one) for one in (None, *(bar.rank for bar in drawn)))
    edges = _edges(plan, drawn)
    return {
        **rows,
        "xaxis": size_axis(plan.gpu.kind, in_gib(end)),
        "shapes": [edge_line(size, dash) for size, dash, _ in edges],
        "annotations": [
            *(
                edge_label(size, text, end, row=1 - at)
                for at, (size, _, text) in enumerate(edges)
            ),
            *(
                _missing_label(bar, missing, end)
                for bar in drawn
                if (missing := missing_bytes(plan, bar.rank))
            ),
        ],
    }


def _edges(plan: Plan, drawn: tuple[Bar, ...]) -> list[tuple[int, str, str]]:
    """Return where GPU and budget end, with the dashes and labels of their lines."""
    total = plan.gpu.total_memory_bytes
    edges = [(total, "solid", f"{plan.gpu.kind} total {format_gib(total)}")]
    for bar in drawn[:1]:
        size = bar.rank.requested_memory_bytes
        edges.append((size, "dash", budget_label(plan, size)))
    return edges


def _missing_label(bar: Bar, missing: int, axis_bytes: int) -> dict[str, Any]:
    """Describe a label left of the requested-memory line if there is room, else right.

    Across the line it could not be read.
    """
    requested = bar.rank.requested_memory_bytes
    has_room = requested >= _LABEL_SHARE * axis_bytes
    return {
        **LABEL,
        "x": in_gib(requested),
        "y": bar.label,
        "xanchor": "right" if has_room else "left",
        "xshift": -_BESIDE_PIXELS if has_room else _BESIDE_PIXELS,
        "yanchor": "top",
        "yshift": -HERO_PIXELS / 2,
        "text": f"<b>missing {format_gib(missing)}</b>",
    }


def figure(plan: Plan) -> go.Figure:
    """Draw `plan` as a plotly figure with its verdict and a legend with sizes.

    It stands alone, in a slide or a report.

    Raises:
        PlannerError: when plotly is not installed.
    """
    spec = figure_spec(plan)
    named = [trace for trace in spec["data"] if _is_named(trace, plan)]
    legend_pixels = _LEGEND_PIXELS + _ENTRY_PIXELS * ceil(len(named) / 2)
    layout = spec["layout"]
    margin = layout["margin"]
    bars_pixels = layout["height"] - margin["t"] - margin["b"]
    spec["layout"] = layout | {
        "title": _title(plan, layout["height"] + _TITLE_PIXELS + legend_pixels),
        "height": layout["height"] + _TITLE_PIXELS,
        # Reserved, so that a bar has its height whatever the legend takes.
        "margin": margin
        | {"t": margin["t"] + _TITLE_PIXELS, "b": margin["b"] + legend_pixels},
        "legend": {"y": -_LEGEND_AT_PIXELS / bars_pixels, "x": 0},
    }
    return plotly_figure(spec, legend_pixels)


def _is_named(trace: dict[str, Any], plan: Plan) -> bool:
    """Give a trace its size in the legend; one that shows nothing has no entry."""
    name = trace["name"]
    if name != SOFT:
        is_host = "yaxis" in trace
        sizes = host_sizes_by_name(plan) if is_host else sizes_by_name(plan)
        trace["showlegend"] = name in sizes and any(trace["x"])
        if trace["showlegend"]:
            place = "CPU memory: " if is_host and "CPU" not in name else ""
            trace["name"] = f"{place}{name} {sizes[name]}"
    return bool(trace.get("showlegend", True))


def _title(plan: Plan, height: int) -> dict[str, Any]:
    words = wrapped(verdict_text(plan), 80)
    subject_text = subject(plan).replace("<", "&lt;")
    return {
        "text": f"<b>{subject_text}</b>, vLLM {plan.vllm_version}<br>{words}",
        "font": {"size": 14, "color": INK},
        "x": 0,
        "xref": "paper",
        "y": 1 - _TITLE_AT_PIXELS / height,
        "yref": "container",
        "yanchor": "top",
    }


def figure_spec(plan: Plan) -> dict[str, Any]:
    """Describe the figure in plotly's JSON, without importing plotly.

    The kernel of a page uses this: plotly.js needs only the values, and the plotly
    package would cost each visitor a second and 60 MiB.
    """
    drawn = bars(plan)
    spec = {
        "data": [*line_traces(drawn), *edge_traces(plan, drawn), *soft_traces(drawn)],
        "layout": layout(plan, drawn),
    }
    return with_hosts(spec, plan)
