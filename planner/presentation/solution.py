"""A solver's answer as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.units import format_gib

if TYPE_CHECKING:
    from planner.solve.solution import Solution

_COUNTED_AS = (
    "Each request is counted at its full length with KV cache of its own; what prefix "
    "caching lets requests share comes on top."
)


def solution_text(solution: Solution) -> str:
    """Write the answer: value, question, arithmetic, options and the command."""
    parts = [headline(solution), asked(solution), "", solution.why]
    if solution.options[1:]:
        parts += ["", *option_lines(solution)]
    parts += ["", *notes(solution)]
    if solution.is_found:
        parts += ["", solution.command()]
    return "\n".join(parts)


def headline(solution: Solution) -> str:
    """Write the value with its unit, or that nothing serves; never colour alone."""
    symbol = "✔" if solution.is_found else "✘"
    return f"{symbol} {value_text(solution)}"


def value_text(solution: Solution) -> str:
    """Write the value with its unit.

    Bytes come as they are typed, with what they are in GiB.
    """
    value, unit = solution.value, solution.unit
    if value is None:
        return "Impossible as asked"
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


def asked(solution: Solution) -> str:
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
    """Write what a GPU's answer adds to the command: its layout and share."""
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
    """Return the GPU that an option is about."""
    plan = option.plan or option.next_plan
    return "" if plan is None else plan.gpu.name


def notes(solution: Solution) -> list[str]:
    """Return what a reader must mind: how requests count, and the plan's own notes."""
    plan = solution.plan
    own = () if plan is None else plan.notes
    return [_COUNTED_AS, *(f"Note: {note}" for note in own)]
