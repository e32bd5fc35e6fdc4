"""The CPU memory of each machine as bars below those of the GPUs.

They have a scale of their own in the same figure, so that a page gets one message.
They are drawn only where a setting uses CPU memory, or the machine's memory is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.show.charts.frame import BAR_PIXELS, GAP_PIXELS, LABEL, edge_line, in_gib
from planner.show.charts.parts import FREE, MISSING_CPU
from planner.show.charts.traces import (
    HOVER,
    NOTHING,
    OVER,
    bar_trace,
    hover_text,
    line_trace,
)
from planner.show.host import bar_label, shown_accounts
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.memory.host.nodes import NodeAccount
    from planner.planning.result import Plan

_AXES = {"xaxis": "x2", "yaxis": "y2"}
_BETWEEN_PIXELS = 78
"""Room for the GPUs' axis with its title, and the label above the machines' bars."""


def with_hosts(spec: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Return a figure of GPU bars with the machines' bars below."""
    accounts = shown_accounts(plan)
    if not accounts:
        return spec
    return {
        "data": [*spec["data"], *host_traces(plan, accounts)],
        "layout": _layout_with_hosts(spec["layout"], plan, accounts),
    }


def host_traces(plan: Plan, accounts: tuple[NodeAccount, ...]) -> list[dict[str, Any]]:
    """Return one trace per line of the machines' accounts, and what is beyond them."""
    names = dict.fromkeys(line.name for one in accounts for line in one.lines)
    lines = [_line(plan, name, accounts) for name in names]
    return [*lines, *_edges(plan, accounts)]


def _line(plan: Plan, name: str, accounts: tuple[NodeAccount, ...]) -> dict[str, Any]:
    lines = [next((x for x in one.lines if x.name == name), None) for one in accounts]
    hovers = ["" if line is None else hover_text(line) for line in lines]
    labels = [bar_label(plan, one) for one in accounts]
    return {**line_trace(name, labels, lines, hovers), **_AXES}


def _bar(plan: Plan, name: str, accounts: tuple[NodeAccount, ...]) -> dict[str, Any]:
    return {**bar_trace(name, [bar_label(plan, one) for one in accounts]), **_AXES}


def _edges(plan: Plan, accounts: tuple[NodeAccount, ...]) -> list[dict[str, Any]]:
    """Return the free and the missing memory of each machine."""
    if accounts[0].capacity_bytes is None:
        return []
    left = [one.left_bytes or 0 for one in accounts]
    free = {
        **_bar(plan, FREE, accounts),
        "x": [in_gib(max(size, 0)) for size in left],
        "customdata": [
            f"Free {format_gib(max(size, 0))}<br>other programs, page cache"
            for size in left
        ],
        "hovertemplate": HOVER,
        "marker": NOTHING,
    }
    over = {
        **_bar(plan, MISSING_CPU, accounts),
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
    return [edge_line(capacity, "solid", {"xref": "x2", "yref": "y2 domain"})]


def _capacity_label(accounts: tuple[NodeAccount, ...]) -> dict[str, Any]:
    """Describe the title above the machines' bars."""
    capacity = accounts[0].capacity_bytes
    known = "" if capacity is None else f" of {format_gib(capacity)}"
    needed = format_gib(max(one.needed_bytes for one in accounts))
    return {
        **LABEL,
        "x": 0,
        "xref": "x2 domain",
        "xanchor": "left",
        "y": 1,
        "yref": "y2 domain",
        "yanchor": "bottom",
        "yshift": 2,
        "text": f"CPU memory: {needed}{known}",
    }
