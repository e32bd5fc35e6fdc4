"""The segments of the bars, as plotly traces: one trace per memory line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.charts.layout import Bar
from planner.charts.scale import in_gib
from planner.presentation.palette import MISSING, PLOTLY_HATCHES, swatch
from planner.presentation.text import range_text
from planner.presentation.verdict import missing_bytes
from planner.presentation.weight_lines import drawn_lines
from planner.units import GIB, format_gib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.memory.host import NodeLine
    from planner.result import Line, Plan

NOTHING = {"color": "#80808022", "line": {"color": "#80808088", "width": 1}}
"""How memory is drawn in which vLLM allocates nothing."""
OVER: dict[str, Any] = {
    "color": "#00000000",
    "line": {"color": MISSING, "width": 2},
    "pattern": {
        "shape": "\\",
        "bgcolor": "#D55E0022",
        "fgcolor": MISSING,
        "size": 9,
        "solidity": 0.35,
    },
}
"""How memory is drawn that is needed and not there."""

HOVER = "%{customdata}<extra></extra>"


def line_traces(drawn: tuple[Bar, ...]) -> list[dict[str, Any]]:
    """One trace per memory line, in the order of the account."""
    names = dict.fromkeys(line.name for bar in drawn for line in drawn_lines(bar.rank))
    return [_line_trace(name, drawn) for name in names]


def _line_trace(name: str, drawn: tuple[Bar, ...]) -> dict[str, Any]:
    lines = [_find(bar, name) for bar in drawn]
    return {
        **_bar_trace(name, drawn),
        "x": [0 if line is None else in_gib(line.size_bytes) for line in lines],
        "text": [_segment_text(line) for line in lines],
        "customdata": [_hover_text(line) for line in lines],
        "hovertemplate": HOVER,
        **segment_looks(name, lines),
    }


def segment_looks(name: str, lines: Sequence[Line | NodeLine | None]) -> dict[str, Any]:
    """Describe how the segments of a line look: its colour, hatched by their basis."""
    colours = swatch(name)
    return {
        "textfont": {"color": colours.label, "size": 12},
        "marker": {
            "color": colours.fill,
            "line": {"color": "#00000055", "width": 1},
            "pattern": {
                "shape": ["" if x is None else PLOTLY_HATCHES[x.basis] for x in lines],
                "bgcolor": colours.fill,
                "fgcolor": colours.hatch,
                "size": 7,
                "solidity": 0.25,
            },
        },
    }


def _bar_trace(name: str, drawn: tuple[Bar, ...]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [bar.label for bar in drawn],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
    }


def _find(bar: Bar, name: str) -> Line | None:
    return next((line for line in drawn_lines(bar.rank) if line.name == name), None)


def _segment_text(line: Line | None) -> str:
    if line is None or line.size_bytes <= 0:
        return ""
    return f"{line.name}<br>{line.size_bytes / GIB:,.2f}"


def _hover_text(line: Line | None) -> str:
    if line is None:
        return ""
    span = range_text(line)
    return (
        f"<b>{line.name}</b> {format_gib(line.size_bytes)}"
        f"{f' ({span})' if span else ''}, {line.basis}<br>{wrapped(line.why)}"
    )


def wrapped(text: str, width: int = 64) -> str:
    """Break a long text for a hover label, which does not wrap by itself."""
    rows = [""]
    for word in text.replace("<", "&lt;").split():
        if rows[-1] and len(rows[-1]) + len(word) >= width:
            rows.append("")
        rows[-1] = f"{rows[-1]} {word}".strip()
    return "<br>".join(rows)


def _empty_gpu(plan: Plan) -> dict[str, Any]:
    """Outline a GPU on which vLLM allocates nothing."""
    return {
        **_bar_trace("nothing allocated", ()),
        "y": [f"{plan.gpu.kind} 0"],
        "x": [in_gib(plan.gpu.total_memory_bytes)],
        "customdata": ["Nothing is allocated"],
        "hovertemplate": HOVER,
        "marker": NOTHING,
    }


def edge_traces(plan: Plan, drawn: tuple[Bar, ...]) -> list[dict[str, Any]]:
    """What lies beyond vLLM's budget: the GPU's rest, and memory that is missing."""
    if not drawn:
        return [_empty_gpu(plan)]
    return edges_of(tuple((plan, bar) for bar in drawn))


def edges_of(drawn: tuple[tuple[Plan, Bar], ...]) -> list[dict[str, Any]]:
    """Return the same for bars of several plans."""
    bars = tuple(bar for _, bar in drawn)
    requested = [in_gib(bar.rank.requested_memory_bytes) for bar in bars]
    rest = [
        in_gib(plan.gpu.total_memory_bytes - bar.rank.requested_memory_bytes)
        for plan, bar in drawn
    ]
    absent = [in_gib(missing_bytes(plan, bar.rank)) or None for plan, bar in drawn]
    # Not `%{x}`, which is where a bar with a base ends.
    outside = {
        **_bar_trace("outside vLLM's budget", bars),
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
        **_bar_trace("missing", bars),
        "base": requested,
        "x": absent,
        "customdata": [f"Missing {size or 0:,.2f} GiB" for size in absent],
        "hovertemplate": HOVER,
        "marker": OVER,
    }
    return [outside, missing]
