"""The stacked bars of a confirmation: estimated and measured memory.

A dry run of the same plan (`dry`) has a bar between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from planner.show.charts.frame import (
    GAP_PIXELS,
    INK,
    LABEL,
    bar_layout,
    edge_label,
    edge_line,
    in_gib,
    size_axis,
)
from planner.show.charts.traces import HOVER, bar_trace, segment_looks, wrapped
from planner.show.confirmation import (
    Segment,
    bars,
    estimated,
    full_bytes,
)
from planner.show.confirmation_text import sized
from planner.show.palette import GRID

if TYPE_CHECKING:
    from planner.confirming.confirmation import Confirmation

Bars: TypeAlias = tuple[tuple[str, tuple[Segment, ...]], ...]
_TOP_PIXELS = 30
LEGEND_PIXELS = 70
_BESIDE_PIXELS = 4
_BETWEEN = 0.5
"""Between the first and the second bar, in units of the axis."""


def figure_spec(
    confirmation: Confirmation, dry: Confirmation | None = None
) -> dict[str, Any]:
    """Describe the figure in plotly's JSON, without importing plotly."""
    drawn = bars(confirmation, dry)
    return {"data": _traces(drawn), "layout": _layout(confirmation, dry, drawn)}


def _traces(drawn: Bars) -> list[dict[str, Any]]:
    """Return one trace per name; bars share a trace where they have the name."""
    names = [name for name, _segments in drawn]
    parts = [{part.name: part for part in segments} for _name, segments in drawn]
    planned, *reported = parts
    return [
        _trace(name, names, [one.get(name) for one in parts])
        for name in _order(planned, [part for one in reported for part in one.values()])
    ]


def _order(planned: Mapping[str, Segment], reported: Sequence[Segment]) -> list[str]:
    """Order the names; one that is only measured precedes the first line it covers."""
    order: dict[str, None] = {}
    for name in planned:
        order |= {
            part.name: None
            for part in reported
            if part.place == name and part.name not in planned
        }
        order[name] = None
    return list(order | {part.name: None for part in reported})


def _trace(
    name: str, rows: list[str], parts: Sequence[Segment | None]
) -> dict[str, Any]:
    """Describe the segments of this name in all rows, of which the first is planned."""
    colour_of = next(part.colour_of for part in parts if part is not None)
    planned, *plain = parts[0], *(None for _row in rows[1:])
    return {
        **bar_trace(name, rows),
        "x": [0 if part is None else in_gib(part.size_bytes) for part in parts],
        "text": [_segment_text(part) for part in parts],
        "customdata": [
            _hover_text(row, part) for row, part in zip(rows, parts, strict=True)
        ],
        "hovertemplate": HOVER,
        **segment_looks(colour_of, [planned.basis if planned else None, *plain]),
    }


def _segment_text(part: Segment | None) -> str:
    if part is None or part.size_bytes <= 0:
        return ""
    return f"{part.name}<br>{sized(part.size_bytes)}"


def _hover_text(bar: str, part: Segment | None) -> str:
    if part is None:
        return ""
    why = f", {part.basis}<br>{wrapped(part.why)}" if part.why else ""
    return f"<b>{part.name}</b> {sized(part.size_bytes)}<br>{bar}{why}"


def _layout(
    confirmation: Confirmation, dry: Confirmation | None, drawn: Bars
) -> dict[str, Any]:
    names = [name for name, _segments in drawn]
    rows = bar_layout(names, gap_pixels=GAP_PIXELS, top_pixels=_TOP_PIXELS)
    kind = confirmation.plan.gpu.kind
    whole = full_bytes(confirmation, dry)
    return {
        **rows,
        "xaxis": size_axis(kind, in_gib(whole)),
        "shapes": [*_budget_line(confirmation), *_range_band(confirmation)],
        "annotations": [
            *_budget_label(confirmation, whole),
            *_range_label(confirmation, whole),
            *_nothing_labels(drawn),
        ],
    }


def _budget_line(confirmation: Confirmation) -> list[dict[str, Any]]:
    rank = confirmation.plan.limiting_rank
    if rank is None:
        return []
    return [edge_line(rank.requested_memory_bytes, "dash")]


def _budget_label(confirmation: Confirmation, whole_bytes: int) -> list[dict[str, Any]]:
    rank = confirmation.plan.limiting_rank
    if rank is None:
        return []
    requested = rank.requested_memory_bytes
    text = f"vLLM may use {sized(requested)}"
    return [edge_label(requested, text, max(whole_bytes, 1))]


def _range(confirmation: Confirmation) -> tuple[int, int] | None:
    """Return the ends of the range in which the estimated KV cache begins."""
    rank = confirmation.plan.limiting_rank
    if rank is None:
        return None
    low, high = rank.available_kv_cache_low_bytes, rank.available_kv_cache_high_bytes
    if low == high:
        return None
    end = sum(part.size_bytes for part in estimated(confirmation))
    return max(end - high, 0), min(end - low, end)


def _range_band(confirmation: Confirmation) -> list[dict[str, Any]]:
    """Mark across all bars where the KV cache may begin."""
    span = _range(confirmation)
    if span is None:
        return []
    return [
        {
            "type": "rect",
            "x0": in_gib(span[0]),
            "x1": in_gib(span[1]),
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "fillcolor": GRID,
            "line": {"color": INK, "width": 1, "dash": "dot"},
        }
    ]


def _range_label(confirmation: Confirmation, whole_bytes: int) -> list[dict[str, Any]]:
    span = _range(confirmation)
    if span is None:
        return []
    is_early = sum(span) < whole_bytes
    return [
        {
            **LABEL,
            "x": in_gib(span[1] if is_early else span[0]),
            "y": _BETWEEN,
            "yanchor": "middle",
            "xanchor": "left" if is_early else "right",
            "xshift": _BESIDE_PIXELS if is_early else -_BESIDE_PIXELS,
            "text": "KV cache begins here",
        }
    ]


def _nothing_labels(drawn: Bars) -> list[dict[str, Any]]:
    """Explain each empty bar of a start."""
    return [
        {
            **LABEL,
            "x": 0,
            "y": name,
            "xanchor": "left",
            "xshift": 6,
            "text": "nothing: vLLM ended before it measured memory",
        }
        for name, segments in drawn[1:]
        if not segments
    ]
