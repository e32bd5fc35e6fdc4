"""Estimate and measurement as two stacked bars: which segments, and as plain boxes."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from planner.presentation.confirmation_text import spoken
from planner.presentation.palette import css_background, swatch
from planner.result import Basis

if TYPE_CHECKING:
    from planner.confirming.confirmation import Confirmation

ESTIMATED = "estimated"
MEASURED = "measured"
_MOST_COLOURED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One part of a bar."""

    name: str
    size_bytes: int
    colour_of: str
    """The memory line whose colour it has: of two that it covers the first; of more
    none, which is grey."""
    place: str
    """The memory line at whose place it is drawn."""
    basis: Basis = Basis.EXACT
    """Decides the hatch; a measured segment is plain."""
    why: str = ""


def estimated(confirmation: Confirmation) -> tuple[Segment, ...]:
    """Return the segments of the plan's limiting rank."""
    rank = confirmation.plan.limiting_rank
    return tuple(
        Segment(
            name=line.name,
            size_bytes=line.size_bytes,
            colour_of=line.name,
            place=line.name,
            basis=line.basis,
            why=line.why,
        )
        for line in (rank.lines if rank else ())
    )


def measured(confirmation: Confirmation) -> tuple[Segment, ...]:
    """Return the segments of the limiting worker, in the order of the plan's lines."""
    order = [segment.name for segment in estimated(confirmation)]
    segments = [
        Segment(
            name=line.name,
            size_bytes=line.size_bytes,
            colour_of="" if len(line.covers) > _MOST_COLOURED else _first(line.covers),
            place=_first(line.covers),
        )
        for line in confirmation.measurement.lines
    ]
    known = {name: number for number, name in enumerate(order)}
    return tuple(sorted(segments, key=lambda part: known.get(part.place, 0)))


def _first(covers: tuple[str, ...]) -> str:
    return covers[0] if covers else ""


def full_bytes(confirmation: Confirmation) -> int:
    """Return what the longest bar takes, the budget included."""
    rank = confirmation.plan.limiting_rank
    bars = (estimated(confirmation), measured(confirmation))
    lengths = [sum(max(part.size_bytes, 0) for part in bar) for bar in bars]
    return max([rank.requested_memory_bytes if rank else 0, *lengths])


def bars_html(confirmation: Confirmation) -> str:
    """Draw both bars out of plain boxes; empty when there is nothing to draw."""
    whole = full_bytes(confirmation)
    if not whole:
        return ""
    bars = "".join(
        _bar_html(name, segments, whole)
        for name, segments in (
            (ESTIMATED, estimated(confirmation)),
            (MEASURED, measured(confirmation)),
        )
    )
    return (
        f"<div role='img' aria-label='{escape(spoken(confirmation))}'>{bars}</div>"
        f"{legend_html(confirmation)}"
    )


def _bar_html(name: str, segments: tuple[Segment, ...], whole: int) -> str:
    boxes = "".join(
        f"<span style='width:{100 * part.size_bytes / whole:.3f}%;"
        f"background:{css_background(part.colour_of, part.basis)}' "
        f"title='{escape(part.name)}'></span>"
        for part in segments
        if part.size_bytes > 0
    )
    return f"<div class='pl-bar-name'>{name}</div><div class='pl-bar'>{boxes}</div>"


def legend_html(confirmation: Confirmation) -> str:
    """Name the colours of both bars."""
    parts = (*estimated(confirmation), *measured(confirmation))
    names = {part.name: part.colour_of for part in parts}
    items = "".join(
        f"<li><span class='pl-swatch' style='background:{swatch(colour).fill}'></span>"
        f"{escape(name)}</li>"
        for name, colour in names.items()
    )
    return f"<ul class='pl-legend'>{items}</ul>"
