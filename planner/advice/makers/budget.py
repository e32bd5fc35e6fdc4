"""How much of the GPU vLLM may use, and arguments that leave some of it unused."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from planner.advice.candidate import Burden, Candidate
from planner.advice.situation import Situation
from planner.cautions import safe_utilization

_MOST_TRIES = 4


def more_of_the_gpu(situation: Situation) -> Iterator[Candidate]:
    """Let vLLM use as much as leaves room for what lies beside its budget."""
    plan = situation.plan
    if plan.resolved is None or not plan.ranks or plan.gpu.is_cpu:
        return
    now = plan.resolved.gpu_memory_utilization
    safe = _safe(situation, now)
    if safe is None:
        return
    first = safe if situation.is_served else now + 0.01
    for hundredths in range(round(100 * first), round(100 * safe) + 1):
        share = hundredths / 100
        yield Candidate(
            kind="gpu_memory_utilization",
            title=f"Let vLLM use {share:g} of the GPU, not {now:g}",
            changes={"gpu_memory_utilization": share},
            cost="Less room beside the budget for what no estimate knows: close other "
            "programs on this GPU first.",
            burden=Burden.SPEED,
        )


def _safe(situation: Situation, now: float) -> float | None:
    """Return the largest share of two decimals that leaves room; None: no larger."""
    plan = situation.plan
    for _ in range(_MOST_TRIES):
        share = _safe_for(situation, max(r.outside_bytes for r in plan.ranks))
        if share <= now:
            return None
        changed = situation.again(gpu_memory_utilization=share)
        if changed is None or not changed.ranks:
            return None
        beside = max(rank.outside_bytes for rank in changed.ranks)
        if share <= _safe_for(situation, beside):
            return share
        plan = changed
    return None


def _safe_for(situation: Situation, outside_bytes: int) -> float:
    gpu = situation.plan.gpu
    share = safe_utilization(gpu.total_memory_bytes, outside_bytes)
    if gpu.free_memory_bytes is None:
        return share
    taken = gpu.total_memory_bytes - gpu.free_memory_bytes
    return safe_utilization(gpu.total_memory_bytes, outside_bytes + taken)


def less_of_the_gpu(situation: Situation) -> Iterator[Candidate]:
    """Ask for no more than is free: the largest share that starts."""
    plan = situation.plan
    if plan.error is None or plan.error.kind != "free_memory" or plan.resolved is None:
        return
    gpu, now = plan.gpu, plan.resolved.gpu_memory_utilization
    free = gpu.total_memory_bytes - max(r.outside_bytes for r in plan.ranks)
    if gpu.free_memory_bytes is not None:
        free = gpu.free_memory_bytes
    for thousandths in range(floor(1000 * free / gpu.total_memory_bytes), 0, -1):
        share = thousandths / 1000
        if share >= now:
            continue
        changed = situation.again(gpu_memory_utilization=share)
        error = None if changed is None else changed.error
        if error is not None and error.kind == "free_memory":
            continue
        yield Candidate(
            kind="gpu_memory_utilization",
            title=f"Let vLLM use {share:g} of the GPU, as much as is free",
            changes={"gpu_memory_utilization": share},
            cost="A smaller KV cache than asked for; what other programs hold is not "
            "vLLM's to use.",
            burden=Burden.NOTHING,
        )
        return


def blocks_as_measured(situation: Situation) -> Iterator[Candidate]:
    """Let vLLM count the blocks itself."""
    if situation.plan.settings.num_gpu_blocks_override is None:
        return
    yield Candidate(
        kind="num_gpu_blocks_override",
        title="Leave num_gpu_blocks_override out: vLLM then takes all that is free",
        changes={"num_gpu_blocks_override": None},
        cost="None: the argument is for tests.",
        burden=Burden.NOTHING,
    )


def cache_as_measured(situation: Situation) -> Iterator[Candidate]:
    """Let vLLM measure what is left for the KV cache."""
    if situation.plan.settings.kv_cache_memory_bytes is None:
        return
    yield Candidate(
        kind="kv_cache_memory_bytes",
        title="Leave kv_cache_memory_bytes out: vLLM then takes what its budget leaves",
        changes={"kv_cache_memory_bytes": None},
        cost="The KV cache depends again on what else is on the GPU when vLLM starts.",
        burden=Burden.NOTHING,
    )
