"""The segments of the bars as plotly traces: one per memory line, or one for a page.

A legend needs one trace per memory line. The page has no legend, since each segment
has its name and a table follows below. It draws one trace in two thirds of the time:
plotly sets up the fonts, hatches and hover labels of every trace whenever a chart
changes.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from planner.show.charts.frame import INK, Bar, in_gib
from planner.show.kv_cache import drawn_lines
from planner.show.palette import (
    CLEAR,
    EDGE,
    FAINT,
    MISSING,
    PLOTLY_HATCHES,
    faded,
    swatch,
)
from planner.show.verdict import cache_name, missing_bytes, range_text
from planner.units import GIB, format_gib

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.memory.account import Basis, Line
    from planner.memory.host.nodes import NodeLine
    from planner.planning.result import Plan

NOTHING = {
    "color": FAINT,
    "line": {"color": "rgba(128, 128, 128, 0.53)", "width": 1},
}
"""The look of memory in which vLLM allocates nothing."""
OVER: dict[str, Any] = {
    "color": CLEAR,
    "line": {"color": MISSING, "width": 2},
    "pattern": {
        "shape": "\\",
        "bgcolor": "rgba(213, 94, 0, 0.13)",
        "fgcolor": MISSING,
        "size": 9,
        "solidity": 0.35,
    },
}
"""The look of memory that is needed but missing."""

SOFT = "soft edge: where the KV cache may begin"
"""Names the span in which the estimate lets the KV cache begin."""
OUTSIDE = "outside vLLM's budget"
MISSING_PART = "missing"

HOVER = "%{customdata}<extra></extra>"
_SLICES = 12
_HALF = _SLICES // 2
"""Steps of the soft edge, which plotly draws as bars: it has no gradient for them."""
_UNSEEN = CLEAR
_HATCH = "/"


def line_traces(drawn: tuple[Bar, ...]) -> list[dict[str, Any]]:
    """Return one trace per memory line, in the order of the account."""
    names = dict.fromkeys(line.name for bar in drawn for line in drawn_lines(bar.rank))
    return [_line_trace(name, drawn) for name in names]


def _line_trace(name: str, drawn: tuple[Bar, ...]) -> dict[str, Any]:
    lines = [_find(bar, name) for bar in drawn]
    hovers = [
        "" if line is None else hover_text(line, range_text(line)) for line in lines
    ]
    return line_trace(name, [bar.label for bar in drawn], lines, hovers)


def line_trace(
    name: str,
    rows: Sequence[str],
    lines: Sequence[Line | NodeLine | None],
    hovers: Sequence[str],
) -> dict[str, Any]:
    """Describe the segments of a line: one in each row that has it."""
    return {
        **bar_trace(name, rows),
        "x": [0 if line is None else in_gib(line.size_bytes) for line in lines],
        "text": [_segment_text(line) for line in lines],
        "customdata": list(hovers),
        "hovertemplate": HOVER,
        **segment_looks(name, [line.basis if line else None for line in lines]),
    }


def segment_looks(name: str, bases: Sequence[Basis | None]) -> dict[str, Any]:
    """Describe the look of a line's segments: its colour, hatched by their basis."""
    colours = swatch(name)
    return {
        "textfont": {"color": colours.label, "size": 12},
        "marker": {
            "color": colours.fill,
            "line": {"color": EDGE, "width": 1},
            "pattern": {
                "shape": ["" if one is None else PLOTLY_HATCHES[one] for one in bases],
                "bgcolor": colours.fill,
                "fgcolor": colours.hatch,
                "size": 7,
                "solidity": 0.25,
            },
        },
    }


def bar_trace(name: str, rows: Sequence[str]) -> dict[str, Any]:
    """Describe segments of one name, one in each row."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": list(rows),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
    }


def _find(bar: Bar, name: str) -> Line | None:
    return next((line for line in drawn_lines(bar.rank) if line.name == name), None)


def _segment_text(line: Line | NodeLine | None) -> str:
    if line is None or line.size_bytes <= 0:
        return ""
    return f"{line.name}<br>{line.size_bytes / GIB:,.2f}"


def hover_text(line: Line | NodeLine, span: str = "") -> str:
    """Write the label that a pointer over a segment shows."""
    return (
        f"<b>{line.name}</b> {format_gib(line.size_bytes)}"
        f"{f' ({span})' if span else ''}, {line.basis}<br>{wrapped(line.why)}"
    )


@lru_cache(256)
def wrapped(text: str, width: int = 64) -> str:
    """Break a long text for a hover label, which does not wrap by itself."""
    rows = [""]
    for word in text.replace("<", "&lt;").split():
        if rows[-1] and len(rows[-1]) + len(word) >= width:
            rows.append("")
        rows[-1] = f"{rows[-1]} {word}".strip()
    return "<br>".join(rows)


def empty_gpus(plans: Mapping[str, Plan]) -> dict[str, Any]:
    """Outline the GPUs of plans by label, on which vLLM allocates nothing."""
    return {
        **bar_trace("nothing allocated", list(plans)),
        "x": [in_gib(plan.gpu.total_memory_bytes) for plan in plans.values()],
        "customdata": ["Nothing is allocated"] * len(plans),
        "hovertemplate": HOVER,
        "marker": NOTHING,
    }


def edge_traces(plan: Plan, drawn: tuple[Bar, ...]) -> list[dict[str, Any]]:
    """Return what is beyond vLLM's budget: the rest of the GPU, and missing memory."""
    if not drawn:
        return [empty_gpus({f"{plan.gpu.kind} 0": plan})]
    return edges_of(tuple((plan, bar) for bar in drawn))


def edges_of(drawn: tuple[tuple[Plan, Bar], ...]) -> list[dict[str, Any]]:
    """Return the same for bars of several plans."""
    rows = [bar.label for _, bar in drawn]
    requested = [in_gib(bar.rank.requested_memory_bytes) for _, bar in drawn]
    rest = [
        in_gib(plan.gpu.total_memory_bytes - bar.rank.requested_memory_bytes)
        for plan, bar in drawn
    ]
    absent = [in_gib(missing_bytes(plan, bar.rank)) or None for plan, bar in drawn]
    # Not `%{x}`, which is the end of a bar with a base.
    outside = {
        **bar_trace(OUTSIDE, rows),
        "base": requested,
        "x": rest,
        "customdata": [
            f"Outside vLLM's budget {size:,.2f} GiB<br>CUDA context, other processes"
            for size in rest
        ],
        "hovertemplate": HOVER,
        "marker": NOTHING,
    }
    missing = {
        **bar_trace(MISSING_PART, rows),
        "base": requested,
        "x": absent,
        "customdata": [f"Missing {size or 0:,.2f} GiB" for size in absent],
        "hovertemplate": HOVER,
        "marker": OVER,
    }
    return [outside, missing]


def soft_edge(bar: Bar) -> tuple[int, int, int] | None:
    """Return where the KV cache begins at the earliest, by estimate and at the latest.

    In bytes from the start of the bar; None where that is certain, or off the bar.
    """
    rank = bar.rank
    low, high = rank.available_kv_cache_low_bytes, rank.available_kv_cache_high_bytes
    if low == high:
        return None
    end = rank.requested_memory_bytes
    early, middle, late = (
        min(max(end - size, 0), end)
        for size in (high, rank.available_kv_cache_bytes, low)
    )
    return None if early == late else (early, middle, late)


def soft_text(bar: Bar) -> str:
    """Say what the soft edge of a bar means."""
    rank = bar.rank
    least = rank.available_kv_cache_low_bytes
    low = format_gib(least).removesuffix(" GiB") if least > 0 else "none"
    high = format_gib(rank.available_kv_cache_high_bytes)
    return f"Soft edge: the {cache_name(rank)} may be {low} to {high}"


def soft_traces(drawn: tuple[Bar, ...]) -> list[dict[str, Any]]:
    """Return the soft edges of the KV cache: slices from one colour to the other."""
    slices = [one for bar in drawn for one in _slices(bar)]
    # The first has the colour that a legend shows.
    slices.sort(key=lambda one: one[3][-2:], reverse=True)
    if not slices:
        return []
    return [
        {
            **bar_trace(SOFT, [bar.label for bar, *_ in slices]),
            "base": [in_gib(start) for _, start, _, _ in slices],
            "x": [in_gib(size) for _, _, size, _ in slices],
            "customdata": [soft_text(bar) for bar, *_ in slices],
            "hovertemplate": HOVER,
            "marker": {
                "color": [colour for *_, colour in slices],
                "line": {"width": 0, "color": _UNSEEN},
            },
        }
    ]


def _slices(bar: Bar) -> list[tuple[Bar, int, int, str]]:
    """Return bar, start, size and colour of each slice of a bar's soft edge.

    Before the estimated edge the KV cache shines through the line before it, and
    behind the edge that line through the KV cache.
    """
    edge = soft_edge(bar)
    if edge is None:
        return []
    early, middle, late = edge
    cache, before = (
        swatch(name).fill for name in (cache_name(bar.rank), line_before_cache(bar))
    )
    rising = _steps(early, middle, [(step + 0.5) / _SLICES for step in range(_HALF)])
    falling = _steps(
        middle, late, [(step + 0.5) / _SLICES for step in reversed(range(_HALF))]
    )
    return [
        *((bar, at, size, faded(cache, share)) for at, size, share in rising),
        *((bar, at, size, faded(before, share)) for at, size, share in falling),
    ]


def _steps(start: int, end: int, shares: list[float]) -> list[tuple[int, int, float]]:
    """Divide a span evenly: start, size and share of each slice."""
    places = [
        start + (end - start) * at // len(shares) for at in range(len(shares) + 1)
    ]
    return [
        (at, then - at, share)
        for (at, then), share in zip(pairwise(places), shares, strict=True)
        if then > at
    ]


def line_before_cache(bar: Bar) -> str:
    """Name the segment that the KV cache follows."""
    names = [line.name for line in drawn_lines(bar.rank) if line.size_bytes > 0]
    cache = cache_name(bar.rank)
    before = names[: names.index(cache)] if cache in names else names
    return before[-1] if before else ""


def as_one_trace(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a chart of stacked bars with all its segments in one trace.

    Where bars have separate scales, there is one trace for each scale.
    """
    by_axis: dict[str, list[dict[str, Any]]] = {}
    for trace in spec["data"]:
        by_axis.setdefault(trace.get("yaxis", ""), []).append(trace)
    return {
        "data": [_merged(traces) for traces in by_axis.values()],
        "layout": spec["layout"] | {"barmode": "overlay"},
    }


def _merged(traces: list[dict[str, Any]]) -> dict[str, Any]:
    placed = list(_placed(traces))
    markers = [trace["marker"] for trace, _, _ in placed]
    patterns = [marker.get("pattern", {}) for marker in markers]
    shapes = [
        shape if isinstance(shape := pattern.get("shape", ""), str) else shape[at]
        for pattern, (_, at, _) in zip(patterns, placed, strict=True)
    ]
    return {
        **_shared(traces[0]),
        "y": [trace["y"][at] for trace, at, _ in placed],
        "base": [base for _, _, base in placed],
        "x": [trace["x"][at] for trace, at, _ in placed],
        "text": [
            trace["text"][at] if "text" in trace else "" for trace, at, _ in placed
        ],
        "customdata": [trace["customdata"][at] for trace, at, _ in placed],
        "hovertemplate": HOVER,
        "textfont": {
            "color": [
                one.get("textfont", {}).get("color", INK) for one, _, _ in placed
            ],
            "size": 12,
        },
        # The colours are those of the hatches: plotly ignores the background of a
        # hatch where segments of a trace differ in `marker.color`.
        "marker": {
            "line": {
                "color": [marker["line"]["color"] for marker in markers],
                "width": [marker["line"]["width"] for marker in markers],
            },
            "pattern": {
                "shape": [shape or _HATCH for shape in shapes],
                "bgcolor": [
                    pattern.get("bgcolor", marker["color"])
                    for marker, pattern in zip(markers, patterns, strict=True)
                ],
                "fgcolor": [
                    pattern["fgcolor"] if shape else _UNSEEN
                    for shape, pattern in zip(shapes, patterns, strict=True)
                ],
                "size": [pattern.get("size", 8) for pattern in patterns],
                "solidity": [pattern.get("solidity", 0.3) for pattern in patterns],
            },
        },
    }


def _shared(trace: dict[str, Any]) -> dict[str, Any]:
    """Return the properties that all traces have in common."""
    names = ("type", "orientation", "textposition", "insidetextanchor", "textangle")
    axes = (name for name in ("xaxis", "yaxis") if name in trace)
    return {name: trace[name] for name in (*names, *axes)}


def _placed(
    traces: list[dict[str, Any]],
) -> Iterator[tuple[dict[str, Any], int, float]]:
    """Yield every visible segment: its trace, its place there and where it begins."""
    ends: defaultdict[str, float] = defaultdict(float)
    for trace in traces:
        for index, row in enumerate(trace["y"]):
            size = trace["x"][index]
            if not size:
                continue
            base = trace["base"][index] if "base" in trace else ends[row]
            ends[row] = base + size
            yield trace, index, base
