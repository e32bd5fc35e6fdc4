"""A solver's answer as text for a terminal, and as one self-contained piece of HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.html import Html, fragment, tag
from planner.show.page import wide_page
from planner.show.pieces import (
    NOTHING,
    answer_box,
    command_line,
    folded_html,
    listed,
    to_open,
)
from planner.show.terminal import legible
from planner.show.verdict import noted
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.solve.solution import Solution

_COUNTED_AS = (
    "Each request is counted at its full length with KV cache of its own; prefix "
    "caching, which lets requests share blocks, can make room for more."
)


@legible
def solution_text(solution: Solution) -> str:
    """Write the answer: value, question, arithmetic, options and the command."""
    parts = [headline(solution), question(solution), "", solution.why]
    if solution.options[1:]:
        parts += ["", *option_lines(solution)]
    parts += ["", *notes(solution)]
    if solution.is_found:
        parts += ["", solution.command()]
    return "\n".join(parts)


def headline(solution: Solution) -> str:
    """Write the value with its unit, or that there is none; never by colour alone."""
    symbol = "✔" if solution.is_found else "✘"
    return f"{symbol} {value_text(solution)}"


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


def question(solution: Solution) -> str:
    """Write the question as a line of its own."""
    return solution.asked[:1].upper() + solution.asked[1:]


def option_lines(solution: Solution) -> list[str]:
    """Write one line per GPU that serves, best first, and name the others."""
    serving = [option for option in solution.options if option.is_found]
    others = [gpu_name(option) for option in solution.options if not option.is_found]
    lines = [
        f"  {value_text(option):<24} {layout_text(option)}".rstrip()
        for option in serving
    ]
    if others:
        lines.append(f"  Not with these: {', '.join(others)}.")
    return lines


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


def notes(solution: Solution) -> list[str]:
    """Return how requests are counted, and the plan's own notes."""
    plan = solution.plan
    own = () if plan is None else noted(plan)
    return [_COUNTED_AS, *(f"Note: {note}" for note in own)]


def solution_html(solution: Solution) -> Html:
    """Show the value, question, arithmetic, options and command; needs no script."""
    return wide_page(
        _answer(solution),
        tag("p", solution.why),
        _options(solution),
        _command(solution),
        listed(notes(solution)),
    )


def _answer(solution: Solution) -> Html:
    tone, symbol = ("fits", "✔") if solution.is_found else ("short", "✘")
    return answer_box(
        tone,
        question=question(solution),
        symbol=symbol,
        headline=value_text(solution),
    )


def _options(solution: Solution) -> Html:
    """Show each GPU that serves, best first, and the arithmetic of all, folded."""
    if not solution.options[1:]:
        return NOTHING
    serving = [option for option in solution.options if option.is_found]
    rows = (
        [gpu_name(option), value_text(option), _flags(option)] for option in serving
    )
    head = ("GPU", ("Fewest", "pl-word"), ("Flags", "pl-text"))
    reasons = (
        (tag("b", gpu_name(option)), f": {option.why}") for option in solution.options
    )
    title = f"The arithmetic of each of {len(solution.options):,} kinds of GPU"
    return fragment(
        folded_html("Each GPU that serves, best first", head, rows)
        if serving
        else None,
        to_open(title, listed(reasons), "pl-rank"),
    )


def _flags(option: Solution) -> Html:
    text = layout_text(option)
    return tag("code", text) if text else NOTHING


def _command(solution: Solution) -> Html:
    if not solution.is_found:
        return NOTHING
    return command_line(solution.command(), "Command")
