"""A solver's answer: value, question, arithmetic, options and the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.html import tag
from planner.show.pieces import NOTHING, listed, to_open
from planner.show.sheet import Answer, Apart, Command, Listing, Sheet, Table
from planner.show.verdict import noted
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.solve.solution import Solution

_COUNTED_AS = (
    "Each request is counted at its full length with KV cache of its own; prefix "
    "caching, which lets requests share blocks, can make room for more."
)


def sheet(solution: Solution) -> Sheet:
    """Say the value, question, arithmetic, options, command and notes."""
    tone, symbol = ("fits", "✔") if solution.is_found else ("short", "✘")
    answer = Answer(
        tone=tone,
        symbol=symbol,
        headline=value_text(solution),
        subject=solution.asked[:1].upper() + solution.asked[1:],
    )
    own = () if solution.plan is None else noted(solution.plan)
    notes = (_COUNTED_AS, *(f"Note: {note}" for note in own))
    command = Command(solution.command() if solution.is_found else "")
    return Sheet((answer, solution.why, *_options(solution), Listing(notes), command))


def value_text(solution: Solution) -> str:
    """Write the value with its unit.

    Bytes are written as they are typed, followed by their size in GiB.
    """
    value, unit = solution.value, solution.unit
    if value is None:
        return "Not possible"
    if unit == "bytes":
        return f"{int(value):,} bytes ({format_gib(int(value))})"
    if isinstance(value, int):
        unit = unit[:-1] if value == 1 else unit
        number = f"{value:,}"
    else:
        number = f"{value:g}"
    if solution.question == "gpus" and solution.plan is not None:
        unit = solution.plan.gpu.name
        return f"{number} x {unit}"
    return f"{number} {unit}"


def layout_text(option: Solution) -> str:
    """Write the flags that a GPU's answer adds to the command: layout and share."""
    if option.plan is None:
        return ""
    given = option.plan.settings
    named = {
        "--tensor-parallel-size": given.tensor_parallel_size,
        "--pipeline-parallel-size": given.pipeline_parallel_size,
        "--data-parallel-size": given.data_parallel_size,
        "--gpu-memory-utilization": given.gpu_memory_utilization,
    }
    words = [f"{flag} {value}" for flag, value in named.items() if value is not None]
    if given.enable_expert_parallel:
        words.append("--enable-expert-parallel")
    return " ".join(words)


def gpu_name(option: Solution) -> str:
    """Return the name of an option's GPU."""
    plan = option.plan or option.next_plan
    return "" if plan is None else plan.gpu.name


def _options(solution: Solution) -> tuple[Table | Apart, ...]:
    """Show each GPU that serves, best first, and the arithmetic of all, folded."""
    options = solution.options
    if not options[1:]:
        return ()
    rows = [
        (gpu_name(option), value_text(option), _flags(option))
        for option in options
        if option.is_found
    ]
    others = [gpu_name(option) for option in options if not option.is_found]
    heads = ("GPU", ("Fewest", "pl-word"), ("Flags", "pl-text"))
    reasons = listed((tag("b", gpu_name(one)), f": {one.why}") for one in options)
    title = f"The arithmetic of each of {len(options):,} kinds of GPU"
    return (
        Table("Each GPU that serves, best first", heads, rows, most=5),
        Apart(
            f"Not with these: {', '.join(others)}." if others else "",
            to_open(title, reasons, "pl-rank"),
        ),
    )


def _flags(option: Solution) -> Apart:
    text = layout_text(option)
    return Apart(text, tag("code", text) if text else NOTHING)
