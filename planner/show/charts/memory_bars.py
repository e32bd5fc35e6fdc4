"""Stacked memory bars, one per GPU, and the CPU memory of each machine below them.

The GPUs' bars have vLLM's budget and the GPU's total. The machines' bars have a scale
of their own, in the same figure, so that the page gets one message; they are drawn only
where a setting uses CPU memory, or the machine's memory is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.show.charts.frame import (
    BAR_PIXELS,
    GAP_PIXELS,
    INK,
    Bar,
    bar_layout,
    bars,
    in_gib,
    plotly_figure,
    size_axis,
)
from planner.show.charts.traces import (
    HOVER,
    NOTHING,
    OVER,
    as_one_trace,
    edge_traces,
    line_traces,
    segment_looks,
    wrapped,
)
from planner.show.host import bar_label, shown_accounts
from planner.show.verdict import missing_bytes
from planner.units import GIB, format_gib

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from planner.memory.host.nodes import NodeAccount, NodeLine
    from planner.planning.result import Plan


_TOP_PIXELS = 46
_BESIDE_PIXELS = 6
_LEGEND_PIXELS = 60
_LABEL_SHARE = 0.4
"""Share of a narrow chart's width that a label takes: 120 of 300 pixels."""
_HOST_AXES = {"xaxis": "x2", "yaxis": "y2"}
_BETWEEN_PIXELS = 78
"""Room for the GPUs' axis with its title, and the label above the machines' bars."""


def layout(plan: Plan, drawn: tuple[Bar, ...]) -> dict[str, Any]:
    """Describe everything except the segments."""
    rows = bar_layout(
        [bar.label for bar in drawn], gap_pixels=GAP_PIXELS, top_pixels=_TOP_PIXELS
    )
    return {
        **rows,
        "xaxis": size_axis(plan.gpu.kind, in_gib(_axis_bytes(plan, drawn))),
        "shapes": _edge_lines(plan, drawn),
        "annotations": [*_edge_labels(plan, drawn), *_missing_labels(plan, drawn)],
    }


def _axis_bytes(plan: Plan, drawn: tuple[Bar, ...]) -> int:
    """Return where the longest bar ends, or the GPU if that is further."""
    ends = [
        bar.rank.requested_memory_bytes + missing_bytes(plan, bar.rank) for bar in drawn
    ]
    return max([plan.gpu.total_memory_bytes, *ends])


def _edge_lines(plan: Plan, drawn: tuple[Bar, ...]) -> list[dict[str, Any]]:
    return [
        {
            "type": "line",
            "x0": in_gib(size_bytes),
            "x1": in_gib(size_bytes),
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": INK, "width": 2, "dash": dash},
        }
        for size_bytes, dash in _edges(plan, drawn)
    ]


def _edges(plan: Plan, drawn: tuple[Bar, ...]) -> list[tuple[int, str]]:
    total = [(plan.gpu.total_memory_bytes, "solid")]
    requested = [(bar.rank.requested_memory_bytes, "dash") for bar in drawn[:1]]
    return total + requested


def _edge_labels(plan: Plan, drawn: tuple[Bar, ...]) -> list[dict[str, Any]]:
    """Label both lines on two rows, so that the labels never overlap."""
    axis_bytes = _axis_bytes(plan, drawn)
    total_text = f"{plan.gpu.kind} total {format_gib(plan.gpu.total_memory_bytes)}"
    total = plan.gpu.total_memory_bytes
    labels = [_label(total, total_text, row=1, axis_bytes=axis_bytes)]
    for bar in drawn[:1]:
        size = bar.rank.requested_memory_bytes
        text = f"vLLM may use {format_gib(size)}{_share(plan)}"
        labels.append(_label(size, text, row=0, axis_bytes=axis_bytes))
    return labels


def _share(plan: Plan) -> str:
    if plan.resolved is None:
        return ""
    return f" ({plan.resolved.gpu_memory_utilization:g} x total)"


def _label(size_bytes: int, text: str, *, row: int, axis_bytes: int) -> dict[str, Any]:
    """Describe a label above a line, anchored so that the chart has room for it."""
    anchor = ("left", "center", "right")[min(2, 3 * size_bytes // axis_bytes)]
    return {
        "x": in_gib(size_bytes),
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "xanchor": anchor,
        "yshift": 2 + 18 * row,
        "showarrow": False,
        "text": text,
        "font": {"size": 12, "color": INK},
    }


def _missing_labels(plan: Plan, drawn: tuple[Bar, ...]) -> list[dict[str, Any]]:
    """Label the missing memory under each bar that exceeds the budget."""
    return [
        _missing_label(bar, missing_bytes(plan, bar.rank), _axis_bytes(plan, drawn))
        for bar in drawn
        if missing_bytes(plan, bar.rank)
    ]


def _missing_label(bar: Bar, missing: int, axis_bytes: int) -> dict[str, Any]:
    """Describe a label left of the requested-memory line if there is room, else right.

    Across the line it could not be read.
    """
    requested = bar.rank.requested_memory_bytes
    has_room = requested >= _LABEL_SHARE * axis_bytes
    return {
        "x": in_gib(requested),
        "y": bar.label,
        "xanchor": "right" if has_room else "left",
        "xshift": -_BESIDE_PIXELS if has_room else _BESIDE_PIXELS,
        "yanchor": "top",
        "yshift": -BAR_PIXELS / 2,
        "showarrow": False,
        "text": f"<b>missing {format_gib(missing)}</b>",
        "font": {"size": 12, "color": INK},
    }


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

    The kernel of a page uses this: plotly.js needs only the values, and the plotly
    package would cost each visitor a second and 60 MiB.
    """
    drawn = bars(plan)
    spec = {
        "data": [*line_traces(drawn), *edge_traces(plan, drawn)],
        "layout": layout(plan, drawn),
    }
    return _with_hosts(spec, plan)


def _with_hosts(spec: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Return a figure of GPU bars with the machines' bars below."""
    accounts = shown_accounts(plan)
    if not accounts:
        return spec
    return {
        "data": [*spec["data"], *_host_traces(plan, accounts)],
        "layout": _layout_with_hosts(spec["layout"], plan, accounts),
    }


def _host_traces(plan: Plan, accounts: tuple[NodeAccount, ...]) -> list[dict[str, Any]]:
    names = dict.fromkeys(line.name for one in accounts for line in one.lines)
    lines = [_host_line(plan, name, accounts) for name in names]
    return [*lines, *_host_edges(plan, accounts)]


def _host_line(
    plan: Plan, name: str, accounts: tuple[NodeAccount, ...]
) -> dict[str, Any]:
    lines = [_found(one, name) for one in accounts]
    return {
        **_host_bar(plan, name, accounts),
        "x": [0 if line is None else in_gib(line.size_bytes) for line in lines],
        "text": ["" if line is None else _host_text(line) for line in lines],
        "customdata": ["" if line is None else _host_hover(line) for line in lines],
        "hovertemplate": HOVER,
        **segment_looks(name, lines),
    }


def _host_bar(
    plan: Plan, name: str, accounts: tuple[NodeAccount, ...]
) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        **_HOST_AXES,
        "y": [bar_label(plan, one) for one in accounts],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
    }


def _found(account: NodeAccount, name: str) -> NodeLine | None:
    return next((line for line in account.lines if line.name == name), None)


def _host_text(line: NodeLine) -> str:
    return f"{line.name}<br>{line.size_bytes / GIB:,.2f}"


def _host_hover(line: NodeLine) -> str:
    return (
        f"<b>{line.name}</b> {format_gib(line.size_bytes)}, {line.basis}<br>"
        f"{wrapped(line.why)}"
    )


def _host_edges(plan: Plan, accounts: tuple[NodeAccount, ...]) -> list[dict[str, Any]]:
    """Return the free and the missing memory of each machine."""
    if accounts[0].capacity_bytes is None:
        return []
    left = [one.left_bytes or 0 for one in accounts]
    free = {
        **_host_bar(plan, "free CPU memory", accounts),
        "x": [in_gib(max(size, 0)) for size in left],
        "customdata": [
            f"Free {format_gib(max(size, 0))}<br>other programs, page cache"
            for size in left
        ],
        "hovertemplate": HOVER,
        "marker": NOTHING,
    }
    over = {
        **_host_bar(plan, "missing CPU memory", accounts),
        "base": [in_gib(one.capacity_bytes or 0) for one in accounts],
        "x": [in_gib(-size) if size < 0 else None for size in left],
        "customdata": [f"Missing {format_gib(max(-size, 0))}" for size in left],
        "hovertemplate": HOVER,
        "marker": OVER,
    }
    return [free, over]


def _layout_with_hosts(
    gpus: dict[str, Any], plan: Plan, accounts: tuple[NodeAccount, ...]
) -> dict[str, Any]:
    """Lay the GPUs out in the upper part of the figure, the machines in the lower."""
    margin = gpus["margin"]
    above = gpus["height"] - margin["t"] - margin["b"]
    below = len(accounts) * (BAR_PIXELS + GAP_PIXELS)
    whole = above + _BETWEEN_PIXELS + below
    labels = [bar_label(plan, one) for one in accounts]
    end = in_gib(
        max(max(one.needed_bytes, one.capacity_bytes or 0) for one in accounts)
    )
    shapes = [shape | {"yref": "y domain"} for shape in gpus["shapes"]]
    return {
        **gpus,
        "height": gpus["height"] + _BETWEEN_PIXELS + below,
        "yaxis": gpus["yaxis"] | {"domain": [1 - above / whole, 1]},
        "xaxis": gpus["xaxis"] | {"anchor": "y"},
        "yaxis2": gpus["yaxis"]
        | {"domain": [0, below / whole], "anchor": "x2", "categoryarray": labels},
        "xaxis2": gpus["xaxis"]
        | {
            "anchor": "y2",
            "range": [0, end * 1.015],
            "title": gpus["xaxis"]["title"] | {"text": "GiB per machine"},
        },
        "shapes": [*shapes, *_capacity_lines(accounts)],
        "annotations": [*gpus["annotations"], _capacity_label(accounts)],
    }


def _capacity_lines(accounts: tuple[NodeAccount, ...]) -> list[dict[str, Any]]:
    capacity = accounts[0].capacity_bytes
    if capacity is None:
        return []
    return [
        {
            "type": "line",
            "xref": "x2",
            "yref": "y2 domain",
            "x0": in_gib(capacity),
            "x1": in_gib(capacity),
            "y0": 0,
            "y1": 1,
            "line": {"color": INK, "width": 2, "dash": "solid"},
        }
    ]


def _capacity_label(accounts: tuple[NodeAccount, ...]) -> dict[str, Any]:
    """Describe the title above the machines' bars."""
    capacity = accounts[0].capacity_bytes
    known = "" if capacity is None else f" of {format_gib(capacity)}"
    needed = format_gib(max(one.needed_bytes for one in accounts))
    return {
        "x": 0,
        "xref": "x2 domain",
        "xanchor": "left",
        "y": 1,
        "yref": "y2 domain",
        "yanchor": "bottom",
        "yshift": 2,
        "showarrow": False,
        "text": f"CPU memory: {needed}{known}",
        "font": {"size": 12, "color": INK},
    }
