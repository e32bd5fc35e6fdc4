"""Which bars a chart draws: one per GPU, or one per group of GPUs that are alike."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.result import Plan, RankMemory

MAX_SINGLE_BARS = 8
"""With more GPUs, those that are alike share one bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: a label, the account it shows, and how many GPUs it stands for."""

    label: str
    rank: RankMemory
    num_gpus: int


def bars(plan: Plan) -> tuple[Bar, ...]:
    """Choose the bars: each GPU while they are few, else groups of alike stages."""
    if not plan.ranks:
        return ()
    if plan.gpus_total <= MAX_SINGLE_BARS:
        return _one_per_gpu(plan)
    return _one_per_group(plan)


def _one_per_gpu(plan: Plan) -> tuple[Bar, ...]:
    """Number the GPUs as vLLM does: replica by replica, stage by stage."""
    replicas = plan.settings.data_parallel_size or 1
    ranks_per_stage = _gpus_per_stage(plan) // replicas
    order = [
        rank
        for _ in range(replicas)
        for rank in plan.ranks
        for _ in range(ranks_per_stage)
    ]
    return tuple(
        Bar(label=f"{plan.gpu.kind} {number}", rank=rank, num_gpus=1)
        for number, rank in enumerate(order)
    )


def _one_per_group(plan: Plan) -> tuple[Bar, ...]:
    """Put neighbouring stages with the same account on one bar."""
    groups = [list(group) for _, group in groupby(plan.ranks, lambda rank: rank.lines)]
    return tuple(
        Bar(
            label=_group_label(plan, group),
            rank=group[0],
            num_gpus=len(group) * _gpus_per_stage(plan),
        )
        for group in groups
    )


def _group_label(plan: Plan, group: list[RankMemory]) -> str:
    alike = f"{len(group) * _gpus_per_stage(plan)} GPUs alike"
    if len(plan.ranks) == 1:
        return alike
    first, last = group[0].pp_rank, group[-1].pp_rank
    stages = f"stage {first}" if first == last else f"stages {first}-{last}"
    return f"{stages}<br>{alike}"


def _gpus_per_stage(plan: Plan) -> int:
    return plan.gpus_total // len(plan.ranks)
