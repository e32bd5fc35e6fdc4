"""A bound on speed, always marked as a bound, and the texts of its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.frames import make_frame
from planner.show.sheet import Answer, Listing, Sheet, Table
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
_COLUMNS = (
    "Figure",
    ("Bound", "pl-number"),
    ("How it is known", "pl-basis"),
    ("Arithmetic", "pl-why"),
)


def frame(bound: SpeedBound) -> pd.DataFrame:
    """Return one row per figure."""
    rows = [(f.name, f.value, f.unit, str(f.basis), f.why) for f in bound.figures]
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


def sheet(bound: SpeedBound) -> Sheet:
    """Say the bound for the load, the caution and every figure with its arithmetic."""
    order = list(LABELS)
    figures = sorted(bound.figures, key=lambda figure: order.index(figure.name))
    first, more = figures[:_MOST_ROWS], figures[_MOST_ROWS:]
    answer = Answer(
        tone="tight",
        symbol="≤",
        headline=headline(bound),
        subject=_title(bound),
        sentence=f"{bound.limit} {bound.to_dict()['caution']}",
    )
    return Sheet(
        (
            answer,
            _table("Bounds, with their arithmetic", first),
            _table(
                "What limits, and what the bounds are computed from",
                more,
                is_folded=True,
            ),
            Listing(bound.notes, sign="Note: "),
        )
    )


def _table(caption: str, figures: list[BoundFigure], **more: bool) -> Table:
    rows = [(LABELS[f.name], value_text(f), f.basis, f.why) for f in figures]
    return Table(caption, _COLUMNS, rows, look="pl-lines pl-stacked", **more)
