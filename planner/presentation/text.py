"""A plan as text for a terminal, and as one sentence for a screen reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.presentation.host import host_lines, host_spoken
from planner.presentation.verdict import OURS, key_figures, verdict
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.result import Line, Plan, RankMemory, VLLMError


def plan_text(plan: Plan) -> str:
    """Write the whole plan: verdict, memory lines, figures, notes and the command."""
    parts = [_title(plan), verdict_text(plan)]
    if plan.error is not None:
        parts += ["", said(plan.error)]
    for rank in plan.ranks:
        parts += ["", *_rank_lines(plan, rank)]
    parts += host_lines(plan)
    parts += ["", *_outside_lines(plan), *_figure_lines(plan)]
    parts += [f"Note: {note}" for note in plan.notes]
    parts += ["", plan.command()]
    return "\n".join(parts)


def said(error: VLLMError) -> str:
    """Write an error under who says so: vLLM, or the planner where it is not sure."""
    if error.kind in OURS:
        return error.message
    return f"vLLM says: {error.message}"


def verdict_text(plan: Plan) -> str:
    """Write the verdict in one line: symbol, words and signed number."""
    said = verdict(plan)
    if not said.margin:
        return f"{said.symbol} {said.headline}"
    return f"{said.symbol} {said.headline}: {said.margin} {said.sentence}"


def spoken(plan: Plan) -> str:
    """Read the picture aloud: the sentence behind the chart's `aria-label`."""
    rank = plan.limiting_rank
    if rank is None:
        return f"No memory is allocated. {verdict_text(plan)}."
    lines = ", ".join(
        f"{line.name} {format_gib(line.size_bytes)}" for line in rank.lines
    )
    return (
        f"Memory of one {plan.gpu.kind} with "
        f"{format_gib(plan.gpu.total_memory_bytes)}, of which vLLM may use "
        f"{format_gib(rank.requested_memory_bytes)}: {lines}. "
        f"{' '.join([*filter(None, [host_spoken(plan)]), verdict_text(plan)])}."
    )


def subject(plan: Plan) -> str:
    """Say what was planned: the model and the GPUs."""
    count = f"{plan.gpus_total} x " if plan.gpus_total > 1 else ""
    return f"{plan.name} on {count}{plan.gpu.name}"


def rank_title(plan: Plan, rank: RankMemory) -> str:
    """Name the GPUs that a rank's account stands for."""
    if len(plan.ranks) == 1:
        return "Each GPU" if plan.gpus_total > 1 else f"{plan.gpu.kind} memory"
    limiting = " (limits the plan)" if rank is plan.limiting_rank else ""
    return f"Each GPU of pipeline stage {rank.pp_rank}{limiting}"


def budget(plan: Plan, rank: RankMemory) -> str:
    """Say how much of the GPU vLLM may use."""
    return (
        f"{format_gib(rank.requested_memory_bytes)} requested of "
        f"{format_gib(plan.gpu.total_memory_bytes)}"
    )


def range_text(line: Line) -> str:
    """Write the range of a line; empty when the figure is certain."""
    if line.low_bytes == line.high_bytes:
        return ""
    low = format_gib(line.low_bytes).removesuffix(" GiB")
    return f"{low} to {format_gib(line.high_bytes)}"


def _title(plan: Plan) -> str:
    return f"{subject(plan)}, vLLM {plan.vllm_version}"


def _rank_lines(plan: Plan, rank: RankMemory) -> list[str]:
    rows = [
        f"  {line.name:<19}{format_gib(line.size_bytes):>12}  {line.basis:<8}"
        f"  {line.why}"
        for line in rank.lines
    ]
    return [f"{rank_title(plan, rank)}: {budget(plan, rank)}", *rows]


def _outside_lines(plan: Plan) -> list[str]:
    rank = plan.limiting_rank
    if rank is None or not rank.outside:
        return []
    room = plan.gpu.total_memory_bytes - rank.requested_memory_bytes
    return [
        f"{'Beside the budget:':<23}{format_gib(rank.outside_bytes)} needed of "
        f"{format_gib(room)}"
    ]


def _figure_lines(plan: Plan) -> list[str]:
    return [
        f"{figure.name + ':':<23}{figure.text} {figure.detail}".rstrip()
        for figure in key_figures(plan)
    ]
