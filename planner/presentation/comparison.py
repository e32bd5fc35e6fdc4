"""A comparison as text, as a pandas frame, and as one sentence for a screen reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.presentation.frames import make_frame
from planner.presentation.verdict import SYMBOLS, missing_bytes, state_of
from planner.units import MIB, format_gib, format_size

if TYPE_CHECKING:
    import pandas as pd

    from planner.comparing.comparison import Comparison
    from planner.comparing.figures import Row
    from planner.result import Plan

LABELS = {
    "verdict": "Verdict",
    "gpus_total": "GPUs",
    "total_memory_bytes": "Memory of each",
    "requested_memory_bytes": "vLLM may use",
    "available_kv_cache_bytes": "Available KV cache",
    "available_kv_cache_low_bytes": "KV cache, at least",
    "kv_cache_size_tokens": "KV cache size, tokens",
    "max_concurrency": "Maximum concurrency",
    "max_concurrency_low": "Concurrency, at least",
    "max_model_len": "max_model_len",
    "max_model_len_that_fits": "Longest max_model_len",
    "num_gpu_blocks": "KV cache blocks",
    "margin_bytes": "Left after one request",
}
"""What a reader sees instead of a field's name."""
_ABSENT = "none"
_SMALL_BYTES = 10 * MIB
"""A smaller difference would be +0.00 GiB or hardly more."""


def mimebundle(comparison: Comparison) -> dict[str, str]:
    """Return the comparison as text and as HTML."""
    from planner.presentation.comparison_html import whole_html  # noqa: PLC0415

    return {
        "text/plain": comparison_text(comparison),
        "text/html": whole_html(comparison),
    }


def frame(comparison: Comparison) -> pd.DataFrame:
    """Return figures down, plans across, then each plan's difference to the first.

    Raises:
        PlannerError: when pandas is not installed.
    """
    others = comparison.names[1:]
    heads = ("figure", "unit", *comparison.names)
    heads += tuple(f"{name} - {comparison.names[0]}" for name in others)
    cells = [
        (row.name, row.unit, *row.values, *row.differences[1:])
        for row in comparison.rows
    ]
    return make_frame(cells, heads).set_index(["figure", "unit"])


def comparison_text(comparison: Comparison) -> str:
    """Write inputs, figures, lines and command changes for a terminal."""
    names = ["", *comparison.names]
    inputs = [
        [found.name, *(found.text(n) for n in range(len(comparison.plans)))]
        for found in comparison.differences
    ]
    figures = [
        [label(row), *(_cell(row, n) for n in range(len(row.values)))]
        for row in comparison.rows
    ]
    lines = columns([names, *inputs, *figures])
    if not comparison.differences and len(comparison.plans) > 1:
        lines.insert(0, "All inputs are the same.")
    for found in comparison.command_diff():
        lines += ["", f"{found.before} to {found.after}:", f"  {found}"]
    return "\n".join(lines)


def label(row: Row) -> str:
    """Return what a reader calls a row."""
    return row.name if row.is_line else LABELS.get(row.name, row.name)


def _cell(row: Row, number: int) -> str:
    change = change_text(row, number)
    return value_text(row, number) + (f" ({change})" if change else "")


def columns(cells: list[list[str]]) -> list[str]:
    """Write rows of cells below each other, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if at == 0 else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def value_text(row: Row, number: int) -> str:
    """Write one plan's value with its unit."""
    value = row.values[number]
    return _ABSENT if value is None else written(value, row.unit)


def change_text(row: Row, number: int) -> str:
    """Write the difference to the first plan, signed; empty where there is none."""
    change = row.differences[number]
    return written(change, row.unit, sign="+") if change else ""


def written(value: Any, unit: str, sign: str = "") -> str:  # noqa: ANN401 - by its unit
    """Write a figure with its unit; `sign` "+" writes a difference."""
    if unit == "bytes":
        if sign and abs(value) < _SMALL_BYTES:
            return f"{'-' if value < 0 else '+'}{format_size(abs(value))}"
        return format_gib(value, signed=bool(sign))
    if unit == "requests":
        return f"{value:{sign},.2f}x"
    return f"{value:{sign},}" if unit else str(value)


def verdict_text(plan: Plan) -> str:
    """Write what becomes of a plan, and how much is missing."""
    rank = plan.limiting_rank
    missing = missing_bytes(plan, rank) if rank is not None else 0
    short = f", missing {format_gib(missing)}" if missing else ""
    return f"{SYMBOLS[state_of(plan)]} {plan.outcome}{short}"


def budget_text(plan: Plan) -> str:
    """Write how much of each GPU vLLM may use."""
    count = f"{plan.gpus_total} x " if plan.gpus_total > 1 else ""
    gpu = f"{count}{plan.gpu.name}, {format_gib(plan.gpu.total_memory_bytes)}"
    rank = plan.limiting_rank
    if rank is None:
        return f"{gpu}: nothing is allocated"
    return f"{gpu}: vLLM may use {format_gib(rank.requested_memory_bytes)}"


def spoken(comparison: Comparison) -> str:
    """Read the bars aloud: the sentence behind the chart's `aria-label`."""
    told = [
        f"{name}: {budget_text(plan)}; {_lines(plan)}{plan.outcome}"
        for name, plan in zip(comparison.names, comparison.plans, strict=True)
    ]
    return f"Memory of {len(told)} plans. {'. '.join(told)}."


def _lines(plan: Plan) -> str:
    rank = plan.limiting_rank
    if rank is None:
        return ""
    lines = ", ".join(
        f"{line.name} {format_gib(line.size_bytes)}" for line in rank.lines
    )
    missing = missing_bytes(plan, rank)
    short = f", missing {format_gib(missing)}" if missing else ""
    return f"{lines}{short}; "
