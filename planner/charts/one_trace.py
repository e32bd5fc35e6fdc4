"""The same bars as one plotly trace, which a page draws in two thirds of the time.

plotly sets up fonts, hatches and hover labels of each trace anew whenever a chart
changes. One trace per memory line is what a legend needs; the page has none, since each
segment names itself and a table stands below.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from planner.charts.scale import INK
from planner.charts.traces import HOVER

_UNSEEN = "#00000000"
_HATCH = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """One bar of one trace."""

    row: str
    base: float
    size: float
    text: str
    hover: str
    label: str
    """Colour of the text."""
    marker: dict[str, Any]
    shape: str


def as_one_trace(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a chart of stacked bars with all its segments in one trace.

    Where bars stand on scales of their own, one trace for each scale.
    """
    by_axis: dict[str, list[dict[str, Any]]] = {}
    for trace in spec["data"]:
        by_axis.setdefault(trace.get("yaxis", ""), []).append(trace)
    return {
        "data": [_merged(traces) for traces in by_axis.values()],
        "layout": spec["layout"] | {"barmode": "overlay"},
    }


def _merged(traces: list[dict[str, Any]]) -> dict[str, Any]:
    segments = _segments(traces)
    markers = [segment.marker for segment in segments]
    patterns = [marker.get("pattern", {}) for marker in markers]
    return {
        **_shared(traces[0]),
        "y": [segment.row for segment in segments],
        "base": [segment.base for segment in segments],
        "x": [segment.size for segment in segments],
        "text": [segment.text for segment in segments],
        "customdata": [segment.hover for segment in segments],
        "hovertemplate": HOVER,
        "textfont": {"color": [segment.label for segment in segments], "size": 12},
        # Colours stand in the hatches: plotly takes no ground of its own for a hatch
        # where segments of a trace differ in `marker.color`.
        "marker": {
            "line": {
                "color": [marker["line"]["color"] for marker in markers],
                "width": [marker["line"]["width"] for marker in markers],
            },
            "pattern": {
                "shape": [segment.shape or _HATCH for segment in segments],
                "bgcolor": [
                    pattern.get("bgcolor", marker["color"])
                    for marker, pattern in zip(markers, patterns, strict=True)
                ],
                "fgcolor": [
                    pattern["fgcolor"] if segment.shape else _UNSEEN
                    for segment, pattern in zip(segments, patterns, strict=True)
                ],
                "size": [pattern.get("size", 8) for pattern in patterns],
                "solidity": [pattern.get("solidity", 0.3) for pattern in patterns],
            },
        },
    }


def _shared(trace: dict[str, Any]) -> dict[str, Any]:
    """Return what all traces have in common."""
    names = ("type", "orientation", "textposition", "insidetextanchor", "textangle")
    axes = (name for name in ("xaxis", "yaxis") if name in trace)
    return {name: trace[name] for name in (*names, *axes)}


def _segments(traces: list[dict[str, Any]]) -> list[_Segment]:
    """Return every segment that is to be seen, each where stacking puts it."""
    ends: defaultdict[str, float] = defaultdict(float)
    found = []
    for trace in traces:
        for index, row in enumerate(trace["y"]):
            size = trace["x"][index]
            if not size:
                continue
            base = trace["base"][index] if "base" in trace else ends[row]
            ends[row] = base + size
            found.append(_segment(trace, index, base))
    return found


def _segment(trace: dict[str, Any], index: int, base: float) -> _Segment:
    shape = trace["marker"].get("pattern", {}).get("shape", "")
    return _Segment(
        row=trace["y"][index],
        base=base,
        size=trace["x"][index],
        text=trace["text"][index] if "text" in trace else "",
        hover=trace["customdata"][index],
        label=trace.get("textfont", {}).get("color", INK),
        marker=trace["marker"],
        shape=shape if isinstance(shape, str) else shape[index],
    )
