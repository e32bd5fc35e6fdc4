"""Advice as text for a terminal, and the words that its table shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.presentation.text import subject, verdict_text
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.advice.result import Advice, AdviceItem

_INDENT = "      "


def advice_text(advice: Advice) -> str:
    """Write the verdict, every change with its gain and cost, and what to mind."""
    plan = advice.plan
    parts = [f"{subject(plan)}, vLLM {plan.vllm_version}", verdict_text(plan), ""]
    parts += [counted(advice)]
    for number, item in enumerate(advice.items, start=1):
        parts += ["", *_item_lines(advice, item, f"{number:>3}.")]
    if advice.pair is not None:
        parts += ["", "Two together:", *_item_lines(advice, advice.pair, "   ")]
    if advice.warnings or plan.notes:
        parts += ["", *(f"Note: {note}" for note in plan.notes)]
        parts += [f"Mind: {warning}" for warning in advice.warnings]
    return "\n".join(parts)


def counted(advice: Advice) -> str:
    """Say what requests are counted, and how many there are before any change."""
    load = advice.load
    wanted = "" if load is None else f", {load.requests:,} wanted"
    found = "" if advice.items or advice.pair else " No single change helps."
    return (
        f"Counted in requests of {advice.request_tokens:,} tokens at once: "
        f"{advice.requests:,} as it is{wanted}.{found}"
    )


def _item_lines(advice: Advice, item: AdviceItem, number: str) -> list[str]:
    lines = [f"{number} {item.title}", f"{_INDENT}{result(advice, item)}"]
    if item.flags:
        lines.append(f"{_INDENT}{item.flags}")
    if item.removed_flags:
        lines.append(f"{_INDENT}without {item.removed_flags}")
    return [*lines, f"{_INDENT}Cost: {item.cost}"]


def result(advice: Advice, item: AdviceItem) -> str:
    """Say what a change comes to: the verdict, and the gains that are not nothing."""
    return f"{symbol(item)} {'; '.join([state(advice, item), *gains(item)])}"


def symbol(item: AdviceItem) -> str:
    """Return a sign for whether it starts, and serves the load."""
    if not item.starts:
        return "✘"
    return "✔" if item.serves else "!"


def state(advice: Advice, item: AdviceItem) -> str:
    """Say whether it starts, and whether it serves the load."""
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
