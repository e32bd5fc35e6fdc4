"""A bound on speed as text, a pandas frame and HTML; always marked as a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.comparison import page
from planner.show.frames import columns, make_frame
from planner.show.html import Html, fragment, tag
from planner.show.pieces import listed, row, table
from planner.show.verdict import subject
from planner.units import format_size

if TYPE_CHECKING:
    import pandas as pd

    from planner.solve.speed.speed import BoundFigure, SpeedBound

LABELS = {
    "active_parameters": "Active parameters",
    "weight_bytes_per_step": "Weights read per step and GPU",
    "kv_bytes_per_request": "KV cache read per step, request and GPU",
    "decode_at_least_seconds": "Next token, at least",
    "decode_at_full_length_at_least_seconds": "Next token at full length, at least",
    "prefill_at_least_seconds": "Prompt, at least",
    "request_at_least_seconds": "Whole request, at least",
    "per_request_at_most_tokens_per_second": "Tokens per second and request, at most",
    "total_at_most_tokens_per_second": "Tokens per second in total, at most",
    "memory_holds": "Requests that the KV cache holds",
    "compute_limits_from": "Requests from which compute is the limit",
}
_TEN = 10
_COLUMNS = ("Figure", ("Bound", "pl-number"), "How it is known", "Arithmetic")


def mimebundle(bound: SpeedBound) -> dict[str, str]:
    """Return the bound as text and as HTML."""
    return {"text/plain": speed_text(bound), "text/html": whole_html(bound)}


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
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:,.2f} s"
    if unit == "tokens per second":
        return f"{value:,.1f}" if value < _TEN else f"{value:,.0f}"
    return f"{value:,}"


def _title(bound: SpeedBound) -> str:
    load = bound.load
    return (
        f"Bound on the speed of {subject(bound.plan)}: {bound.requests:,} requests at "
        f"once, prompts of {load.prompt_tokens:,} tokens, answers of "
        f"{load.output_tokens:,}"
    )


def speed_text(bound: SpeedBound) -> str:
    """Write the bound for a terminal."""
    caution = bound.to_dict()["caution"]
    rows = [(LABELS[f.name], value_text(f), f.basis, f.why) for f in bound.figures]
    lines = [f"  {line}" for line in columns(rows, "<><")]
    notes = [f"Note: {note}" for note in bound.notes]
    return "\n".join([_title(bound), caution, "", *lines, "", bound.limit, *notes])


def whole_html(bound: SpeedBound) -> Html:
    """Show everything in one self-contained piece; needs no script."""
    return page(speed_html(bound))


def speed_html(bound: SpeedBound) -> Html:
    """Show the caution first, then the limit, then every figure with its arithmetic."""
    caution = tag(
        "div",
        tag("p", tag("b", _title(bound))),
        tag("p", bound.to_dict()["caution"]),
        tag("p", bound.limit),
        class_="pl-bound",
    )
    figures = table(
        "Bounds, with their arithmetic",
        _COLUMNS,
        map(_row, bound.figures),
        "pl-lines pl-stacked",
    )
    return fragment(caution, figures, listed(bound.notes))


def _row(figure: BoundFigure) -> Html:
    return row(
        LABELS[figure.name],
        tag("td", value_text(figure), class_="pl-number", data_label="Bound"),
        tag("td", figure.basis, class_="pl-basis", data_label="How it is known"),
        tag("td", figure.why, class_="pl-why"),
    )
