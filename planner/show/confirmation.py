"""A confirmation as HTML: its verdict, stacked bars, the comparison, and the run.

Where the same plan was also started without a GPU, `dry` adds that: a bar between the
estimate's and the measurement's, and a column of the table. The segments of the bars
are here too; `planner.show.charts.confirmed_bars` draws them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.memory.account import Basis
from planner.show.boxes import box, drawing, legend
from planner.show.confirmation_text import (
    cells,
    facts,
    figure_text,
    given_text,
    load_text,
    measured_word,
    outcome_words,
    served_text,
    spoken,
    title,
)
from planner.show.html import Html, fragment, tag
from planner.show.page import whole
from planner.show.palette import css_background
from planner.show.pieces import (
    NOTHING,
    bar_name,
    listed,
    quoted,
    row,
    sentence,
    table,
    verdict_box,
)
from planner.values import frozen

if TYPE_CHECKING:
    from planner.confirming.confirmation import ComparisonRow, Confirmation

ESTIMATED = "estimated"
_MOST_COLOURED = 2
_MEASURED = "Measured"
_FIGURES = (
    ("Estimated", "pl-number"),
    ("Range", "pl-number pl-range"),
    (_MEASURED, "pl-number"),
    ("Difference", "pl-number"),
    ("Inside?", "pl-inside"),
    ("How it is known", "pl-basis"),
)
_MEASURED_AT = [heading for heading, _kind in _FIGURES].index(_MEASURED)


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


def confirmation_html(confirmation: Confirmation) -> Html:
    """Show everything in one self-contained piece; needs no script."""
    return whole(
        verdict_html(confirmation),
        bars_html(confirmation),
        comparison_html(confirmation),
        meaning_html(confirmation),
    )


def verdict_html(confirmation: Confirmation) -> Html:
    """Show the outcome: symbol, words, and vLLM's error where there was one."""
    words = outcome_words(confirmation)
    error = confirmation.measurement.error
    verdict = verdict_box(
        words.tone,
        sentence(words.sentence),
        subject=title(confirmation),
        symbol=words.symbol,
        headline=words.headline,
    )
    return fragment(verdict, quoted("vLLM said", error) if error else None)


def comparison_html(
    confirmation: Confirmation, dry: Confirmation | None = None
) -> Html:
    """Show estimate and measurement line by line, as a table beside the chart."""
    rows = _rows(confirmation, dry)
    if not rows:
        return tag("p", "No figure was measured that could be compared.")
    columns = _columns(confirmation, dry)
    return table(
        "Estimate and measurement, line by line",
        (columns[0][0], *columns[1:]),
        (_row(one, more, columns) for one, more in rows),
        "pl-lines pl-compared pl-stacked",
    )


def _rows(
    confirmation: Confirmation, dry: Confirmation | None
) -> list[tuple[ComparisonRow, tuple[str, ...]]]:
    """Return the rows, each with the dry run's figure where there was one."""
    if dry is None:
        return [(one, ()) for one in confirmation.rows]
    found = {one.name: one for one in dry.rows}
    known = {one.name for one in confirmation.rows}
    only_dry = (one for one in dry.rows if one.name not in known)
    rows = (*confirmation.rows, *(replace(one, measured=None) for one in only_dry))
    return [(one, (_dry_text(found.get(one.name)),)) for one in rows]


def _dry_text(row: ComparisonRow | None) -> str:
    return figure_text(None if row is None else row.measured, row.unit if row else "")


def _columns(
    confirmation: Confirmation, dry: Confirmation | None
) -> tuple[tuple[str, str], ...]:
    """Return the columns' headings and classes."""
    columns = [("Figure", "")]
    for heading, kind in _FIGURES:
        if heading != _MEASURED:
            columns.append((heading, kind))
            continue
        every = (confirmation,) if dry is None else (dry, confirmation)
        columns += [(measured_word(one), kind) for one in every]
    return tuple(columns)


def _row(
    compared: ComparisonRow, more: tuple[str, ...], columns: tuple[tuple[str, str], ...]
) -> Html:
    name, *texts = cells(compared)
    texts[_MEASURED_AT:_MEASURED_AT] = more
    figures = (
        tag("td", text, class_=kind, data_label=heading)
        for text, (heading, kind) in zip(texts, columns[1:], strict=True)
    )
    return row(name, *figures, class_="pl-off" if compared.is_inside is False else None)


def meaning_html(confirmation: Confirmation) -> Html:
    """Show what the figures mean, what was served, and what was run."""
    reasons = listed(confirmation.reasons, "pl-reasons")
    return tag(
        "div",
        _given_html(confirmation),
        (tag("h3", "Why they may differ"), reasons) if reasons else None,
        _served_html(confirmation),
        _load_html(confirmation),
        listed(confirmation.notes),
        _facts_html(confirmation),
        class_="pl-meaning",
    )


def _paragraph(text: str, kind: str) -> Html:
    return tag("p", text, class_=kind) if text else NOTHING


def _given_html(confirmation: Confirmation) -> Html:
    if confirmation.given is None:
        return NOTHING
    return _paragraph(given_text(confirmation.given, confirmation), "pl-given")


def _served_html(confirmation: Confirmation) -> Html:
    text = confirmation.measurement.generated_text
    answer = tag("blockquote", text, class_="pl-answer") if text else None
    return fragment(_paragraph(served_text(confirmation), "pl-served"), answer)


def _load_html(confirmation: Confirmation) -> Html:
    load = confirmation.measurement.load
    if load is None:
        return NOTHING
    return _paragraph(load_text(load, confirmation.plan.max_concurrency), "pl-load")


def _facts_html(confirmation: Confirmation) -> Html:
    items = (
        tag("div", tag("dt", name), tag("dd", text))
        for name, text in facts(confirmation)
    )
    return tag("dl", items, class_="pl-facts")


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
    boxes = (
        box(
            part.name,
            part.size_bytes,
            whole,
            css_background(part.colour_of, part.basis),
        )
        for part in segments
        if part.size_bytes > 0
    )
    bar = tag("div", boxes, class_="pl-bar")
    return fragment(bar_name(name), bar)


def legend_html(confirmation: Confirmation, dry: Confirmation | None = None) -> Html:
    """Write the legend of all bars."""
    parts = (part for _name, segments in bars(confirmation, dry) for part in segments)
    return legend({part.name: part.colour_of for part in parts}.items())
