"""A confirmation: its verdict, stacked bars, the comparison, and the run.

Where the same plan was also started without a GPU, `dry` adds that: a bar between the
estimate's and the measurement's, and a column of the table. The segments of the bars
are here too; `planner.show.charts.confirmed_bars` draws them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.memory.account import Basis
from planner.show.boxes import boxes, drawing, legend
from planner.show.confirmation_text import (
    answer,
    cells,
    facts,
    figure_text,
    given_text,
    load_text,
    measured_word,
    served_text,
    spoken,
)
from planner.show.html import Html, fragment, tag
from planner.show.palette import css_background
from planner.show.pieces import NOTHING, bar_name
from planner.show.sheet import Apart, Cell, Group, Listing, Part, Sheet, Table
from planner.values import frozen

if TYPE_CHECKING:
    from planner.confirming.confirmation import ComparisonRow, Confirmation

ESTIMATED = "estimated"
_MOST_COLOURED = 2
_FIRST_COLUMNS = (
    "Figure",
    ("Estimated", "pl-number"),
    ("Range", "pl-number pl-range"),
)
_LAST_COLUMNS = (
    ("Difference", "pl-number"),
    ("Inside?", "pl-inside"),
    ("How it is known", "pl-basis"),
)


@frozen
class Segment:
    """One part of a bar."""

    name: str
    size_bytes: int
    colour_of: str
    """The memory line whose colour it has: the first of two that it covers. With more
    it is empty, and the segment grey."""
    place: str
    """The memory line at whose place the segment is drawn."""
    basis: Basis = Basis.EXACT
    """Determines the hatch; a measured segment has none."""
    why: str = ""


def sheet(confirmation: Confirmation) -> Sheet:
    """Say the outcome, estimate and measurement line by line, and what they mean."""
    return Sheet(
        (
            answer(confirmation),
            Apart(html=bars_html(confirmation)),
            compared(confirmation),
            meaning(confirmation),
        )
    )


def compared(confirmation: Confirmation, dry: Confirmation | None = None) -> Part:
    """Say estimate and measurement line by line, as a table beside the chart."""
    rows = list(confirmation.rows)
    if dry is not None:
        known = {one.name for one in rows}
        others = (one for one in dry.rows if one.name not in known)
        rows += [replace(one, measured=None) for one in others]
    if not rows:
        return "No figure was measured that could be compared."
    starts = (confirmation,) if dry is None else (dry, confirmation)
    measured = [(measured_word(one), "pl-number") for one in starts]
    return Table(
        "Estimate and measurement, line by line",
        (*_FIRST_COLUMNS, *measured, *_LAST_COLUMNS),
        [_cells(one, dry) for one in rows],
        look="pl-lines pl-compared pl-stacked",
    )


def _cells(row: ComparisonRow, dry: Confirmation | None) -> tuple[Cell, ...]:
    """Write a row, with the dry run's figure where there was one before the other's."""
    name, estimated, span, *measured, inside, basis = cells(row)
    if dry is not None:
        found = next((one for one in dry.rows if one.name == row.name), None)
        measured.insert(0, figure_text(found.measured if found else None, row.unit))
    marked = Apart(inside, tag("b", inside)) if row.is_inside is False else inside
    return (name, estimated, span, *measured, marked, basis)


def meaning(confirmation: Confirmation) -> Group:
    """Say what the figures mean, what was served, and what was run."""
    measurement, given = confirmation.measurement, confirmation.given
    load, answered = measurement.load, measurement.generated_text
    computed = given_text(given, confirmation) if given else ""
    probed = load_text(load, confirmation.plan.max_concurrency) if load else ""
    quoted = tag("blockquote", answered, class_="pl-answer") if answered else None
    found = facts(confirmation)
    items = (tag("div", tag("dt", name), tag("dd", text)) for name, text in found)
    return Group(
        (
            _paragraph(computed, "pl-given"),
            Listing(
                confirmation.reasons,
                "Why they may differ",
                look="pl-reasons",
                sign="- ",
            ),
            _paragraph(served_text(confirmation), "pl-served"),
            Apart(f"As text: {answered!r}" if answered else "", quoted),
            _paragraph(probed, "pl-load"),
            Listing(confirmation.notes, sign="Note: "),
            Apart(
                ", ".join(f"{name}: {text}" for name, text in found),
                tag("dl", items, class_="pl-facts"),
            ),
        ),
        look="pl-meaning",
    )


def _paragraph(text: str, look: str) -> Apart | None:
    return Apart(text, tag("p", text, class_=look)) if text else None


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


def bars(
    confirmation: Confirmation, dry: Confirmation | None = None
) -> tuple[tuple[str, tuple[Segment, ...]], ...]:
    """Return the bars from the top, each by its name."""
    reported = (confirmation,) if dry is None else (dry, confirmation)
    return (
        (ESTIMATED, estimated(confirmation)),
        *((measured_word(one).lower(), measured(one)) for one in reported),
    )


def full_bytes(confirmation: Confirmation, dry: Confirmation | None = None) -> int:
    """Return the length of the longest bar, vLLM's budget included."""
    rank = confirmation.plan.limiting_rank
    lengths = [
        sum(max(part.size_bytes, 0) for part in segments)
        for _name, segments in bars(confirmation, dry)
    ]
    return max([rank.requested_memory_bytes if rank else 0, *lengths])


def bars_html(confirmation: Confirmation, dry: Confirmation | None = None) -> Html:
    """Draw the bars as plain boxes; empty when there is nothing to draw."""
    whole = full_bytes(confirmation, dry)
    if not whole:
        return NOTHING
    drawn = (
        _bar_html(name, segments, whole)
        for name, segments in bars(confirmation, dry)
        if segments
    )
    return fragment(
        drawing(spoken(confirmation, dry), drawn), legend_html(confirmation, dry)
    )


def _bar_html(name: str, segments: tuple[Segment, ...], whole: int) -> Html:
    parts = (
        (part.name, part.size_bytes, css_background(part.colour_of, part.basis))
        for part in segments
    )
    return fragment(bar_name(name), tag("div", boxes(parts, whole), class_="pl-bar"))


def legend_html(confirmation: Confirmation, dry: Confirmation | None = None) -> Html:
    """Write the legend of all bars."""
    parts = (part for _name, segments in bars(confirmation, dry) for part in segments)
    return legend({part.name: part.colour_of for part in parts}.items())
