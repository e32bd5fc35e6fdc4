"""A bound on speed as text, as a pandas frame and as HTML; always marked as a bound."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from planner.presentation.frames import make_frame
from planner.presentation.text import subject
from planner.units import format_size

if TYPE_CHECKING:
    import pandas as pd

    from planner.roofline.speed import BoundFigure, SpeedBound

LABELS = {
    "active_parameters": "Active parameters",
    "weight_bytes_per_step": "Weights read per step and GPU",
    "kv_bytes_per_request": "KV cache read per step, request and GPU",
    "decode_at_least_seconds": "Next token, at least",
    "decode_at_full_length_at_least_seconds": "Next token at full length, at least",
    "prefill_at_least_seconds": "Prompt, at least",
    "request_at_least_seconds": "Whole request, at least",
    "per_request_at_most_tokens_per_second": "Tokens per second and request, at most",
    "total_at_most_tokens_per_second": "Tokens per second in all, at most",
    "memory_holds": "Requests that the KV cache holds",
    "compute_limits_from": "Requests from which computing limits",
}
_TEN = 10


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
    widths = [max(len(row[at]) for row in rows) for at in range(3)]
    lines = [
        f"  {name:<{widths[0]}}  {value:>{widths[1]}}  {basis:<{widths[2]}}  {why}"
        for name, value, basis, why in rows
    ]
    notes = [f"Note: {note}" for note in bound.notes]
    return "\n".join([_title(bound), caution, "", *lines, "", bound.limit, *notes])


def whole_html(bound: SpeedBound) -> str:
    """Show everything in one self-contained piece; needs no script."""
    from planner.presentation.comparison_html import page  # noqa: PLC0415

    return page(speed_html(bound))


def speed_html(bound: SpeedBound) -> str:
    """Show the caution first, then the limit, then every figure with its arithmetic."""
    caution = escape(bound.to_dict()["caution"])
    rows = "".join(_row(figure) for figure in bound.figures)
    notes = "".join(f"<li>{escape(note)}</li>" for note in bound.notes)
    listed = f"<ul class='pl-notes'>{notes}</ul>" if notes else ""
    return (
        f"<div class='pl-bound'><p><b>{escape(_title(bound))}</b></p><p>{caution}</p>"
        f"<p>{escape(bound.limit)}</p></div>"
        "<table class='pl-lines pl-stacked'><caption>Bounds, with their arithmetic"
        "</caption><thead><tr><th scope='col'>Figure</th>"
        "<th scope='col' class='pl-number'>Bound</th><th scope='col'>Basis</th>"
        "<th scope='col'>Arithmetic</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>{listed}"
    )


def _row(figure: BoundFigure) -> str:
    return (
        f"<tr><th scope='row'>{escape(LABELS[figure.name])}</th>"
        f"<td class='pl-number' data-label='Bound'>{escape(value_text(figure))}</td>"
        f"<td class='pl-basis' data-label='Basis'>{figure.basis}</td>"
        f"<td class='pl-why'>{escape(figure.why)}</td></tr>"
    )
