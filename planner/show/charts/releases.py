"""The KV cache of one start over vLLM's releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.show.charts.curve import COLOURS, band
from planner.show.charts.frame import AXIS, base_layout, in_gib, note_above
from planner.show.upgrade import effects
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.solve.upgrading import Step, Upgrade

_HEIGHT = 320
_LOW, _HIGH = "low_bytes", "high_bytes"


def figure_spec(found: Upgrade) -> dict[str, Any]:
    """Describe the figure in plotly's JSON, without importing plotly."""
    known = [step for step in found.steps if step.plan and step.plan.limiting_rank]
    releases = [step.release for step in known]
    ends = [[_end(step, end) for step in known] for end in (_LOW, "size_bytes", _HIGH)]
    low, middle, high = ends
    colour = COLOURS[0]
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": releases,
        "y": middle,
        "customdata": [_hover(step) for step in known],
        "hovertemplate": "%{customdata}<extra></extra>",
        "line": {"color": colour, "width": 2},
        "marker": {"color": colour, "size": 7},
    }
    return {
        "data": [band(releases, high, low, colour), line],
        "layout": {
            **base_layout(_HEIGHT, 40, 52),
            "xaxis": {**AXIS, "type": "category", "automargin": True, "nticks": 12},
            "yaxis": {
                **AXIS,
                "automargin": True,
                "rangemode": "tozero",
                "title": {"text": "KV cache of a GPU, GiB", "font": {"size": 12}},
            },
            "annotations": [note_above("band: the estimate's range", pixels=6)],
        },
    }


def _end(step: Step, end: str) -> float:
    rank = step.plan.limiting_rank if step.plan else None
    size = 0 if rank is None else int(getattr(rank.line("KV cache"), end))
    return in_gib(max(0, size))


def _hover(step: Step) -> str:
    rank = step.plan.limiting_rank if step.plan else None
    size = 0 if rank is None else rank.available_kv_cache_bytes
    changes = "".join(f"<br>{effects(cause)}" for cause in step.causes)
    return f"vLLM {step.release}: {format_gib(size)}{changes}"
