"""How much of the GPU vLLM may use, and arguments that leave some of it unused."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from planner.planning.after_sizing import safe_utilization
from planner.planning.result import Plan
from planner.solve.advice.situation import Burden, Candidate, Situation
from planner.units import format_gib

_MOST_TRIES = 4
_KEPT_FREE = 100
"""This fraction (1/n) of the GPU is kept free for what the estimate does not cover."""


def more_of_the_gpu(situation: Situation) -> Iterator[Candidate]:
    """Let vLLM use more, as long as memory outside its budget still fits."""
    plan = situation.plan
    if plan.resolved is None or not plan.ranks or plan.gpu.is_cpu:
        return
    now = plan.resolved.gpu_memory_utilization
    if situation.is_served:
        safe = _safe(situation, now)
        shares = iter([] if safe is None else [safe])
    else:
        shares = _shares(situation, now)
    for share in shares:
        yield Candidate(
            title=f"Let vLLM use {share:g} of the GPU, not {now:g}",
            changes={"gpu_memory_utilization": share},
            cost=f"Less room outside the budget: {_left(situation, share)} of each GPU "
            "stay free for what no estimate knows, so close other programs on it "
            "first.",
        )


def _shares(situation: Situation, now: float) -> Iterator[float]:
    """Yield larger shares, as long as the memory outside the budget still fits."""
    for hundredths in range(floor(100 * now) + 1, 100):
        share = hundredths / 100
        changed = situation.again(gpu_memory_utilization=share)
        if changed is None or not changed.ranks:
            return
        if share > _most(changed):
            return
        yield share


def _safe(situation: Situation, now: float) -> float | None:
    """Return the largest safe share, to two decimals; None: not above the present."""
    plan = situation.plan
    for _ in range(_MOST_TRIES):
        share = _most(plan)
        if share <= now:
            return None
        changed = situation.again(gpu_memory_utilization=share)
        if changed is None or not changed.ranks:
            return None
        plan = changed
        if share <= _most(plan):
            return share
    return None


def _most(plan: Plan) -> float:
    """Return the largest share, to two decimals, that leaves enough free."""
    return safe_utilization(plan.gpu.total_memory_bytes, _kept(plan))


def _kept(plan: Plan) -> int:
    """Return what vLLM's budget must leave free, including a reserve."""
    return _beside(plan) + plan.gpu.total_memory_bytes // _KEPT_FREE


def _beside(plan: Plan) -> int:
    """Return the most that is expected outside vLLM's budget."""
    most = max(sum(line.high_bytes for line in rank.outside) for rank in plan.ranks)
    return _taken(plan) + most


def _left(situation: Situation, share: float) -> str:
    """Write the least memory that stays free at a share of the GPU."""
    changed = situation.again(gpu_memory_utilization=share)
    plan = changed if changed is not None and changed.ranks else situation.plan
    total = plan.gpu.total_memory_bytes
    return format_gib(max(total - int(share * total) - _beside(plan), 0))


def _taken(plan: Plan) -> int:
    """Return the memory that other processes hold."""
    gpu = plan.gpu
    if gpu.free_memory_bytes is None:
        return 0
    return gpu.total_memory_bytes - gpu.free_memory_bytes


def less_of_the_gpu(situation: Situation) -> Iterator[Candidate]:
    """Lower the share to what is free, less memory outside the budget."""
    plan = situation.plan
    if not plan.is_share_too_large:
        return
    total = plan.gpu.total_memory_bytes
    share = floor(1000 * (total - _kept(plan)) / total) / 1000
    if share <= 0:
        return
    yield Candidate(
        title=f"Let vLLM use {share:g} of the GPU: as much as is free and leaves room "
        "outside it",
        changes={"gpu_memory_utilization": share},
        cost="A smaller KV cache than requested; what other programs hold is not "
        f"vLLM's to use, and {_left(situation, share)} of the GPU stay free.",
        burden=Burden.NOTHING,
    )


def blocks_as_measured(situation: Situation) -> Iterator[Candidate]:
    """Let vLLM determine the number of blocks."""
    if situation.plan.settings.num_gpu_blocks_override is None:
        return
    yield Candidate(
        title="Leave num_gpu_blocks_override out: vLLM then takes all that is free",
        changes={"num_gpu_blocks_override": None},
        cost="None: the argument is for tests.",
        burden=Burden.NOTHING,
    )


def cache_as_measured(situation: Situation) -> Iterator[Candidate]:
    """Let vLLM measure the memory left for the KV cache."""
    if situation.plan.settings.kv_cache_memory_bytes is None:
        return
    yield Candidate(
        title="Leave kv_cache_memory_bytes out: vLLM then takes what its budget leaves",
        changes={"kv_cache_memory_bytes": None},
        cost="The KV cache depends again on what else is on the GPU when vLLM starts.",
        burden=Burden.NOTHING,
    )
