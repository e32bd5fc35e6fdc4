"""The bars of a plan for the page, whose script writes all words itself.

plotly draws only the segments. Its axes, texts and notes took half the time of a step,
and it cannot place labels so that they never overlap. The page's script (`picture.js`)
places them for the width that it has: names in the segments or below them on leader
lines, or in a legend where there is too little room.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from planner.show.charts.frame import FONT, Bar, bars, in_gib
from planner.show.charts.host_bars import host_traces
from planner.show.charts.parts import (
    Part,
    host_parts_of,
    parts_of,
    plain_part,
    soft_words,
)
from planner.show.charts.traces import (
    MISSING_PART,
    as_one_trace,
    edge_traces,
    line_before_cache,
    line_traces,
    soft_edge,
)
from planner.show.host import bar_label, shown_accounts
from planner.show.palette import CLEAR, swatch
from planner.show.verdict import cache_name
from planner.units import format_gib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.memory.host.nodes import NodeAccount
    from planner.planning.result import Plan

HERO_PIXELS = 84
_MANY_PIXELS = 56
_MANY = 4
"""From so many bars on, they are lower, and a legend names their parts."""
_HOST_PIXELS = 42
_EDGE_PIXELS = 18
"""For the label of each line across the bars, above them."""
_GPU_EDGES = 2
_TITLE_PIXELS = 22
_LEADERS_PIXELS = 62
"""Below a bar: leader lines, and names of up to two lines with a size."""
_GAP_PIXELS = 8
_AXIS_PIXELS = 38
_SIDE_PIXELS = 8
_BEYOND = 1.015
"""The axis ends a little beyond the longest bar."""


def page_spec(plan: Plan) -> dict[str, Any]:
    """Describe the bars for a page, which redraws them while a slider moves.

    `data` and `layout` are plotly's JSON; `picture` holds what the script writes.
    """
    drawn, accounts = bars(plan), shown_accounts(plan)
    groups = [_gpus(plan, drawn), *([_hosts(plan, accounts)] if accounts else [])]
    traces = [*line_traces(drawn), *edge_traces(plan, drawn)]
    if accounts:
        traces += host_traces(plan, accounts)
    edges = [len(one["edges"]) for one in groups]
    # A plan that is refused has no budget; its bar stays where that of others is.
    edges[0] = _GPU_EDGES
    rows = [len(one["rows"]) for one in groups]
    modes = _modes(tuple(zip(rows, edges, strict=True)))
    return {
        "data": _data(traces, groups, modes[-1]),
        "layout": _layout(groups, modes[-1]),
        "picture": {
            "groups": groups,
            "modes": modes,
            "soft": soft_words(plan, drawn),
            "plan": _compared(plan),
        },
    }


def _compared(plan: Plan) -> dict[str, Any]:
    """Return what the next plan is compared with, where it is `of` the same."""
    rank = plan.limiting_rank
    return {
        "of": f"{plan.name} {plan.gpu.name} {plan.gpus_total}",
        "kv_cache_bytes": rank.available_kv_cache_bytes if rank else None,
        "requests": round(plan.all_engines.max_concurrency, 5),
    }


def _gpus(plan: Plan, drawn: tuple[Bar, ...]) -> dict[str, Any]:
    total = plan.gpu.total_memory_bytes
    rows = [_gpu_row(plan, bar) for bar in drawn]
    ends = [part[3] for row in rows for part in row["parts"]]
    edges = [_edge(total, f"{plan.gpu.kind} total {format_gib(total)}")]
    for bar in drawn[:1]:
        size = bar.rank.requested_memory_bytes
        edges.append(_edge(size, budget_label(plan, size), is_budget=True))
    return {
        "unit": f"GiB per {plan.gpu.kind}",
        "end": round(max([in_gib(total), *ends]) * _BEYOND, 3),
        "edges": edges,
        "rows": rows or [_empty_row(plan)],
    }


def _empty_row(plan: Plan) -> dict[str, Any]:
    """Return the row of a plan that vLLM refuses before it allocates anything."""
    count = f"{plan.gpus_total} x " if plan.gpus_total > 1 else ""
    total = plan.gpu.total_memory_bytes
    part = plain_part("not allocated", 0, total, total)
    return {"title": f"{count}{plan.gpu.name}", "parts": [_part(part)], "soft": None}


def budget_label(plan: Plan, size_bytes: int) -> str:
    """Say how much vLLM may use, and which share of the GPU that is."""
    text = f"vLLM may use {format_gib(size_bytes)}"
    if plan.resolved is None:
        return text
    return f"{text} ({plan.resolved.gpu_memory_utilization:g} x total)"


def _edge(size_bytes: int, text: str, *, is_budget: bool = False) -> dict[str, Any]:
    return {"at": in_gib(size_bytes), "text": text, "budget": is_budget}


def _gpu_row(plan: Plan, bar: Bar) -> dict[str, Any]:
    edge, parts = soft_edge(bar), parts_of(plan, bar)
    colours = (line_before_cache(bar), cache_name(bar.rank))
    return {
        "title": bar.label,
        "parts": [
            [*_part(part), *map(in_gib, _free(part, parts, plan))]
            if part.name == MISSING_PART
            else _part(part)
            for part in parts
        ],
        "soft": edge and [*map(in_gib, edge), *(swatch(name).fill for name in colours)],
    }


def _free(part: Part, parts: Sequence[Part], plan: Plan) -> tuple[int, int]:
    """Return the widest piece of a part that no line and no other part crosses."""
    places = {plan.gpu.total_memory_bytes}
    places |= {at for one in parts for at in (one.start_bytes, one.end_bytes)}
    cuts = sorted(at for at in places if part.start_bytes < at < part.end_bytes)
    pieces = pairwise((part.start_bytes, *cuts, part.end_bytes))
    return max(pieces, key=lambda piece: piece[1] - piece[0])


def _part(part: Part) -> list[Any]:
    size = format_gib(part.size_bytes).removesuffix(" GiB")
    start, end = in_gib(part.start_bytes), in_gib(part.end_bytes)
    return [part.name, size, start, end, part.fill, part.ink]


def _hosts(plan: Plan, accounts: tuple[NodeAccount, ...]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [
        {
            "title": _host_title(plan, account),
            "parts": [_part(part) for part in host_parts_of(account)],
            "soft": None,
        }
        for account in accounts
    ]
    capacity = accounts[0].capacity_bytes
    ends = [part[3] for row in rows for part in row["parts"]]
    return {
        "unit": "GiB per machine",
        "end": round(max([in_gib(capacity or 0), *ends]) * _BEYOND, 3),
        "edges": []
        if capacity is None
        else [_edge(capacity, f"machine total {format_gib(capacity)}")],
        "rows": rows,
    }


def _host_title(plan: Plan, account: NodeAccount) -> str:
    needed = format_gib(account.needed_bytes)
    return f"{bar_label(plan, account)}: CPU memory {needed}"


@lru_cache(64)
def _modes(counts: tuple[tuple[int, int], ...]) -> list[dict[str, Any]]:
    """Return where the bars are: with a legend, and where few with leader lines too.

    Args:
        counts: rows and edges of each group; first the GPUs, then the machines.
    """
    is_few = counts[0][0] < _MANY
    below = (_GAP_PIXELS, _LEADERS_PIXELS) if is_few else (_GAP_PIXELS,)
    return [_mode(counts, pixels) for pixels in below]


def _mode(counts: tuple[tuple[int, int], ...], below: int) -> dict[str, Any]:
    top = 0
    groups = []
    for index, (rows, edges) in enumerate(counts):
        bar = _bar_pixels(index, counts[0][0])
        start = top + edges * _EDGE_PIXELS
        pitch = _TITLE_PIXELS + bar + below
        end = start + rows * pitch
        groups.append({"top": top, "start": start, "end": end, "bar": bar})
        top = end + _AXIS_PIXELS
    return {
        "leaders": below == _LEADERS_PIXELS,
        "title": _TITLE_PIXELS,
        "below": below,
        "height": top,
        "groups": groups,
    }


def _bar_pixels(group: int, gpu_rows: int) -> int:
    if group:
        return _HOST_PIXELS
    return HERO_PIXELS if gpu_rows < _MANY else _MANY_PIXELS


def _data(
    traces: list[dict[str, Any]], groups: list[dict[str, Any]], mode: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return plotly's traces: one per group, whose rows are numbers, without texts."""
    merged = as_one_trace({"data": traces, "layout": {}})["data"]
    found = []
    for trace, group, place in zip(merged, groups, mode["groups"], strict=True):
        labels = list(dict.fromkeys(trace["y"]))
        found.append(
            {name: value for name, value in trace.items() if "text" not in name}
            | {
                "y": [labels.index(label) for label in trace["y"]],
                "width": place["bar"] / _pitch(place, len(group["rows"])),
            }
        )
    return found


def _pitch(place: dict[str, int], rows: int) -> float:
    return (place["end"] - place["start"]) / rows


def _layout(groups: Sequence[dict[str, Any]], mode: dict[str, Any]) -> dict[str, Any]:
    layout: dict[str, Any] = {
        "barmode": "overlay",
        "height": mode["height"],
        "showlegend": False,
        "template": None,
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "margin": {"l": _SIDE_PIXELS, "r": _SIDE_PIXELS, "t": 0, "b": 0},
        "hoverlabel": {"align": "left", "font": {"family": FONT, "size": 12}},
    }
    hidden = {"visible": False, "fixedrange": True}
    for index, (group, place) in enumerate(zip(groups, mode["groups"], strict=True)):
        number = str(index + 1) if index else ""
        layout[f"xaxis{number}"] = {
            **hidden,
            "range": [0, group["end"]],
            "anchor": f"y{number}",
        }
        layout[f"yaxis{number}"] = {
            **hidden,
            "anchor": f"x{number}",
            **_rows(place, len(group["rows"]), mode),
        }
    return layout


def _rows(place: dict[str, int], rows: int, mode: dict[str, Any]) -> dict[str, Any]:
    """Return the range and the domain that put row 0, 1, ... at their pixels."""
    pitch = _pitch(place, rows)
    first = (mode["title"] + place["bar"] / 2) / pitch
    height = mode["height"]
    return {
        "range": [rows - first, -first],
        "domain": [1 - place["end"] / height, 1 - place["start"] / height],
    }
