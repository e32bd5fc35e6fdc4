"""A bound on speed as text, a pandas frame and HTML; always marked as a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.frames import columns, make_frame
from planner.show.html import Html, fragment, tag
from planner.show.page import wide_page
from planner.show.pieces import answer_box, listed, row, sentence, table, to_open
from planner.show.terminal import legible
from planner.show.verdict import subject
from planner.units import counted, format_size

if TYPE_CHECKING:
    import pandas as pd

    from planner.solve.speed.speed import BoundFigure, SpeedBound

LABELS = {
    "total_at_most_tokens_per_second": "Tokens per second in total, at most",
    "per_request_at_most_tokens_per_second": "Tokens per second and request, at most",
    "decode_at_least_seconds": "Next token, at least",
    "prefill_at_least_seconds": "Prompt, at least",
    "request_at_least_seconds": "Whole request, at least",
    "decode_at_full_length_at_least_seconds": "Next token at full length, at least",
    "memory_holds": "Requests that the KV cache holds",
    "compute_limits_from": "Requests from which compute is the limit",
    "active_parameters": "Active parameters",
    "weight_bytes_per_step": "Weights read per step and GPU",
    "kv_bytes_per_request": "KV cache read per step, request and GPU",
}
"""What a reader sees instead of a figure's name: the bounds, then their inputs."""
_TEN = 10
_MOST_ROWS = 5
_COLUMNS = ("Figure", ("Bound", "pl-number"), "How it is known", "Arithmetic")


def frame(bound: SpeedBound) -> pd.DataFrame:
    """Return one row per figure.

    Raises:
        PlannerError: when pandas is not installed.
    """
    rows = [
        (figure.name, figure.value, figure.unit, str(figure.basis), figure.why)
        for figure in bound.figures
    ]
    return make_frame(rows, ("figure", "value", "unit", "basis", "why"))


def value_text(figure: BoundFigure) -> str:
    """Write a figure with its unit."""
    value, unit = figure.value, figure.unit
    if value is None:
        return "no limit" if figure.name == "memory_holds" else "none"
    if unit == "bytes":
        return format_size(int(value))
    if unit == "parameters":
        return f"{value / 1e9:,.2f} billion"
    if unit == "seconds":
        return seconds_text(value)
    return rate_text(value) if unit == "tokens per second" else f"{value:,}"


def seconds_text(seconds: float) -> str:
    """Write a time.

    >>> seconds_text(0.01234), seconds_text(12.3)
    ('12.3 ms', '12.30 s')
    """
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:,.2f} s"


def rate_text(per_second: float) -> str:
    """Write tokens per second, with a decimal where they are few.

    >>> rate_text(1234.5), rate_text(3.14)
    ('1,234', '3.1')
    """
    return f"{per_second:,.1f}" if per_second < _TEN else f"{per_second:,.0f}"


def headline(bound: SpeedBound) -> str:
    """Write the bound for the load in one line."""
    total = next(
        figure for figure in bound.figures if figure.name.startswith("total_at_most")
    )
    wanted = bound.load.requests
    of = f"{bound.requests:,} of " if bound.requests != wanted else ""
    return (
        f"At most {value_text(total)} tokens per second, {of}"
        f"{counted(wanted, 'requests')} at once"
    )


def _title(bound: SpeedBound) -> str:
    load = bound.load
    return (
        f"Bound on the speed of {subject(bound.plan)}: prompts of "
        f"{counted(load.prompt_tokens, 'tokens')}, answers of {load.output_tokens:,}"
    )


def _ordered(bound: SpeedBound) -> list[BoundFigure]:
    """Return the figures, the bounds before what they are computed from."""
    order = list(LABELS)
    return sorted(bound.figures, key=lambda figure: order.index(figure.name))


@legible
def speed_text(bound: SpeedBound) -> str:
    """Write the bound for a terminal."""
    caution = bound.to_dict()["caution"]
    rows = [(LABELS[f.name], value_text(f), f.basis, f.why) for f in _ordered(bound)]
    lines = [f"  {line}" for line in columns(rows, "<><")]
    notes = [f"Note: {note}" for note in bound.notes]
    first = [headline(bound), _title(bound), caution]
    return "\n".join([*first, "", *lines, "", bound.limit, *notes])


def whole_html(bound: SpeedBound) -> Html:
    """Show everything in one self-contained piece; needs no script."""
    return wide_page(speed_html(bound))


def speed_html(bound: SpeedBound) -> Html:
    """Show the bound for the load, the caution and every figure with its arithmetic."""
    answer = answer_box(
        "tight",
        sentence(bound.limit),
        tag("p", bound.to_dict()["caution"]),
        question=_title(bound),
        symbol="≤",
        headline=headline(bound),
    )
    figures = _ordered(bound)
    first, more = figures[:_MOST_ROWS], figures[_MOST_ROWS:]
    return fragment(
        answer,
        _table("Bounds, with their arithmetic", first),
        to_open(
            "What limits, and what the bounds are computed from",
            _table("Limits and inputs", more),
            "pl-rank",
        ),
        listed(bound.notes),
    )


def _table(caption: str, figures: list[BoundFigure]) -> Html:
    return table(caption, _COLUMNS, map(_row, figures), "pl-lines pl-stacked")


def _row(figure: BoundFigure) -> Html:
    return row(
        LABELS[figure.name],
        tag("td", value_text(figure), class_="pl-number", data_label="Bound"),
        tag("td", figure.basis, class_="pl-basis", data_label="How it is known"),
        tag("td", figure.why, class_="pl-why"),
    )
