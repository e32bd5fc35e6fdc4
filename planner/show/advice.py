"""Advice as a dictionary, a pandas frame, text for a terminal, and HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.show.frames import make_frame
from planner.show.html import Html, fragment, tag
from planner.show.page import whole
from planner.show.pieces import listed, row, table
from planner.show.tables import verdict_html
from planner.show.verdict import noted, subject, verdict_text
from planner.units import GIB, format_gib

if TYPE_CHECKING:
    import pandas as pd

    from planner.solve.advice.result import Advice, AdviceItem

COLUMNS = (
    "kind",
    "title",
    "flags",
    "starts",
    "serves",
    "gain_requests",
    "gain_gib",
    "gain_bytes",
    "gain_tokens",
    "cost",
)
_HEADS = ("Change", "Result", "Command line", "Cost")
_INDENT = "      "


def advice_dict(advice: Advice) -> dict[str, Any]:
    """Return advice for JSON: the request, every change, notes and warnings."""
    load = advice.load
    return {
        "command": advice.plan.command(),
        "fits": advice.plan.fits,
        "request_tokens": advice.request_tokens,
        "requests": advice.requests,
        "load": None
        if load is None
        else {
            "prompt_tokens": load.prompt_tokens,
            "output_tokens": load.output_tokens,
            "requests": load.requests,
        },
        "items": [_item_dict(item) for item in advice.items],
        "pair": None if advice.pair is None else _item_dict(advice.pair),
        "notes": list(advice.plan.notes),
        "warnings": list(advice.warnings),
    }


def _item_dict(item: AdviceItem) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "title": item.title,
        "changes": dict(item.changes),
        "flags": item.flags,
        "removed_flags": item.removed_flags,
        "command": item.plan.command(),
        "cost": item.cost,
        "burden": item.burden.name.lower(),
        "starts": item.starts,
        "serves": item.serves,
        "gain_bytes": item.gain_bytes,
        "gain_tokens": item.gain_tokens,
        "gain_requests": item.gain_requests,
    }


def advice_frame(advice: Advice) -> pd.DataFrame:
    """Return one row per change, the pair last.

    Raises:
        PlannerError: when pandas is not installed.
    """
    items = [*advice.items, *([advice.pair] if advice.pair else [])]
    return make_frame([_frame_row(item) for item in items], COLUMNS)


def _frame_row(item: AdviceItem) -> tuple[object, ...]:
    return (
        item.kind,
        item.title,
        item.flags,
        item.starts,
        item.serves,
        item.gain_requests,
        item.gain_bytes / GIB,
        item.gain_bytes,
        item.gain_tokens,
        item.cost,
    )


def advice_text(advice: Advice) -> str:
    """Write the verdict, every change with its gain and cost, and the warnings."""
    plan = advice.plan
    parts = [f"{subject(plan)}, vLLM {plan.vllm_version}", verdict_text(plan), ""]
    parts += [counted(advice)]
    for number, item in enumerate(advice.items, start=1):
        parts += ["", *_item_lines(advice, item, f"{number:>3}.")]
    if advice.pair is not None:
        parts += ["", "Two together:", *_item_lines(advice, advice.pair, "   ")]
    if advice.warnings or noted(plan):
        parts += ["", *(f"Note: {note}" for note in noted(plan))]
        parts += [f"Warning: {warning}" for warning in advice.warnings]
    return "\n".join(parts)


def counted(advice: Advice) -> str:
    """State which requests are counted, and how many fit before any change."""
    load = advice.load
    wanted = "" if load is None else f", {load.requests:,} wanted"
    found = "" if advice.items or advice.pair else " No single change helps."
    return (
        f"Counted in requests of {advice.request_tokens:,} tokens at once: "
        f"{advice.requests:,} before any change{wanted}.{found}"
    )


def _item_lines(advice: Advice, item: AdviceItem, number: str) -> list[str]:
    lines = [f"{number} {item.title}", f"{_INDENT}{result(advice, item)}"]
    if item.flags:
        lines.append(f"{_INDENT}{item.flags}")
    if item.removed_flags:
        lines.append(f"{_INDENT}without {item.removed_flags}")
    return [*lines, f"{_INDENT}Cost: {item.cost}"]


def result(advice: Advice, item: AdviceItem) -> str:
    """Describe the effect of a change: the verdict, and every gain that is not zero."""
    return f"{symbol(item)} {'; '.join([state(advice, item), *gains(item)])}"


def symbol(item: AdviceItem) -> str:
    """Return a sign for whether the plan starts, and serves the load."""
    if not item.starts:
        return "✘"
    return "✔" if item.serves else "!"


def state(advice: Advice, item: AdviceItem) -> str:
    """State whether the plan starts, and whether it serves the load."""
    if not item.starts:
        return "does not start yet"
    if advice.load is None:
        return "starts"
    return "serves the load" if item.serves else "starts, but serves less than the load"


def gains(item: AdviceItem) -> list[str]:
    """Write the gains in requests, memory and tokens."""
    words = []
    if item.gain_requests:
        unit = "request" if item.gain_requests == 1 else "requests"
        words.append(f"{item.gain_requests:+,} {unit} at once")
    if format_gib(abs(item.gain_bytes)) != format_gib(0):
        size = format_gib(item.gain_bytes, signed=True)
        words.append(f"{size} of KV cache per {item.plan.gpu.kind}")
    if item.gain_tokens:
        words.append(f"{item.gain_tokens:+,} tokens")
    return words


def advice_html(advice: Advice) -> Html:
    """Show the verdict, a table of changes, and notes; needs no script."""
    return whole(
        verdict_html(advice.plan),
        changes_table(advice),
        warnings_html(advice),
        class_="pl-plan pl-advice",
    )


def changes_table(advice: Advice) -> Html:
    """Show every change as a row, the pair last."""
    items = [*advice.items, *([advice.pair] if advice.pair else [])]
    if not items:
        return tag("p", counted(advice))
    return table(counted(advice), _HEADS, (_table_row(advice, item) for item in items))


def _table_row(advice: Advice, item: AdviceItem) -> Html:
    together = "Two together: " if item is advice.pair else ""
    words = "; ".join([state(advice, item), *gains(item)])
    return row(
        f"{together}{item.title}",
        tag("td", tag("span", symbol(item), aria_hidden="true"), f" {words}"),
        tag("td", _flags(item)),
        tag("td", item.cost, class_="pl-why"),
    )


def _flags(item: AdviceItem) -> Html:
    removed = item.removed_flags
    return fragment(
        tag("code", item.flags) if item.flags else None,
        ("without ", tag("code", removed)) if removed else None,
    )


def warnings_html(advice: Advice) -> Html:
    """Show the plan's notes and the warnings; empty when there are none."""
    return listed((*noted(advice.plan), *advice.warnings))
