"""The two stacked bars of a confirmation: estimated and measured memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.show.charts.frame import (
    GAP_PIXELS,
    INK,
    bar_layout,
    in_gib,
    plotly_figure,
    size_axis,
)
from planner.show.charts.traces import wrapped
from planner.show.confirmation import (
    ESTIMATED,
    MEASURED,
    Segment,
    estimated,
    full_bytes,
    measured,
)
from planner.show.confirmation_text import sized
from planner.show.palette import PLOTLY_HATCHES, swatch

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from planner.confirming.confirmation import Confirmation

_ROWS = [ESTIMATED, MEASURED]
_TOP_PIXELS = 30
_LEGEND_PIXELS = 70
_BESIDE_PIXELS = 4
_BETWEEN = 0.5
"""Between the first and the second bar, in units of the axis."""
_LABEL = {"showarrow": False, "font": {"size": 12, "color": INK}}


def figure(confirmation: Confirmation) -> go.Figure:
    """Draw a confirmation as a plotly figure with a legend.

    Raises:
        PlannerError: when plotly is not installed.
    """
    return plotly_figure(figure_spec(confirmation), legend_pixels=_LEGEND_PIXELS)


def figure_spec(confirmation: Confirmation) -> dict[str, Any]:
    """Describe the figure in plotly's JSON, without importing plotly."""
    return {"data": _traces(confirmation), "layout": _layout(confirmation)}


def _traces(confirmation: Confirmation) -> list[dict[str, Any]]:
    """Return one trace per name; both bars share a trace where both have the name."""
    left = {part.name: part for part in estimated(confirmation)}
    right = {part.name: part for part in measured(confirmation)}
    return [
        _trace(name, left.get(name), right.get(name)) for name in _order(left, right)
    ]


def _order(left: dict[str, Segment], right: dict[str, Segment]) -> list[str]:
    """Order the names; one that is only measured precedes the first line it covers."""
    order: list[str] = []
    for name in left:
        order += [
            part.name
            for part in right.values()
            if part.place == name and part.name not in left
        ]
        order.append(name)
    return [*order, *(name for name in right if name not in order)]


def _trace(
    name: str, planned: Segment | None, reported: Segment | None
) -> dict[str, Any]:
    parts = (planned, reported)
    colours = swatch(next(part.colour_of for part in parts if part is not None))
    hatch = "" if planned is None else PLOTLY_HATCHES[planned.basis]
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": _ROWS,
        "x": [0 if part is None else in_gib(part.size_bytes) for part in parts],
        "text": [_segment_text(part) for part in parts],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": colours.label, "size": 12},
        "customdata": [
            _hover_text(ESTIMATED, planned),
            _hover_text(MEASURED, reported),
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "color": colours.fill,
            "line": {"color": "#00000055", "width": 1},
            "pattern": {
                "shape": [hatch, ""],
                "bgcolor": colours.fill,
                "fgcolor": colours.hatch,
                "size": 7,
                "solidity": 0.25,
            },
        },
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


def _layout(confirmation: Confirmation) -> dict[str, Any]:
    rows = bar_layout(_ROWS, gap_pixels=GAP_PIXELS, top_pixels=_TOP_PIXELS)
    kind = confirmation.plan.gpu.kind
    return {
        **rows,
        "xaxis": size_axis(kind, in_gib(full_bytes(confirmation))),
        "shapes": [*_budget_line(confirmation), *_range_band(confirmation)],
        "annotations": [
            *_budget_label(confirmation),
            *_range_label(confirmation),
            *_nothing_label(confirmation),
        ],
    }


def _budget_line(confirmation: Confirmation) -> list[dict[str, Any]]:
    rank = confirmation.plan.limiting_rank
    if rank is None:
        return []
    requested = in_gib(rank.requested_memory_bytes)
    return [
        {
            "type": "line",
            "x0": requested,
            "x1": requested,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": INK, "width": 2, "dash": "dash"},
        }
    ]


def _budget_label(confirmation: Confirmation) -> list[dict[str, Any]]:
    rank = confirmation.plan.limiting_rank
    if rank is None:
        return []
    requested = rank.requested_memory_bytes
    return [
        {
            **_LABEL,
            "x": in_gib(requested),
            "y": 1,
            "yref": "paper",
            "yanchor": "bottom",
            "yshift": 2,
            "xanchor": _anchor(requested, full_bytes(confirmation)),
            "text": f"vLLM may use {sized(requested)}",
        }
    ]


def _anchor(at_bytes: int, whole_bytes: int) -> str:
    """Return the anchor of a text at a place, so that the chart has room for it."""
    return ("left", "center", "right")[min(2, 3 * at_bytes // max(whole_bytes, 1))]


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
    """Mark across both bars where the KV cache may begin."""
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
            "fillcolor": "#80808033",
            "line": {"color": INK, "width": 1, "dash": "dot"},
        }
    ]


def _range_label(confirmation: Confirmation) -> list[dict[str, Any]]:
    span = _range(confirmation)
    if span is None:
        return []
    is_early = sum(span) < full_bytes(confirmation)
    return [
        {
            **_LABEL,
            "x": in_gib(span[1] if is_early else span[0]),
            "y": _BETWEEN,
            "yanchor": "middle",
            "xanchor": "left" if is_early else "right",
            "xshift": _BESIDE_PIXELS if is_early else -_BESIDE_PIXELS,
            "text": "KV cache begins here",
        }
    ]


def _nothing_label(confirmation: Confirmation) -> list[dict[str, Any]]:
    """Explain an empty second bar."""
    if measured(confirmation):
        return []
    return [
        {
            **_LABEL,
            "x": 0,
            "y": MEASURED,
            "xanchor": "left",
            "xshift": 6,
            "text": "nothing: vLLM ended before it measured memory",
        }
    ]
