"""How much of the GPU vLLM may use, and arguments that leave some of it unused."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from planner.advice.candidate import Burden, Candidate
from planner.advice.situation import Situation
from planner.cautions import safe_utilization
from planner.memory.outside import CUDA_CONTEXT
from planner.result import Plan

_MOST_TRIES = 4
_MOST = 0.99
"""Never all of a GPU."""


def more_of_the_gpu(situation: Situation) -> Iterator[Candidate]:
    """Let vLLM use more, as long as there is room for what lies beside its budget."""
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
            kind="gpu_memory_utilization",
            title=f"Let vLLM use {share:g} of the GPU, not {now:g}",
            changes={"gpu_memory_utilization": share},
            cost="Less room beside the budget for what no estimate knows: close other "
            "programs on this GPU first.",
            burden=Burden.SPEED,
        )


def _shares(situation: Situation, now: float) -> Iterator[float]:
    """Yield larger shares, as long as what is expected beside the budget has room."""
    for hundredths in range(floor(100 * now) + 1, 100):
        share = hundredths / 100
        changed = situation.again(gpu_memory_utilization=share)
        if changed is None or not changed.ranks:
            return
        beside = max(rank.outside_bytes for rank in changed.ranks) + _taken(changed)
        if share > safe_utilization(changed.gpu.total_memory_bytes, beside):
            return
        yield share


def _safe(situation: Situation, now: float) -> float | None:
    """Return the largest share of two decimals that leaves room; None: no larger."""
    plan = situation.plan
    for _ in range(_MOST_TRIES):
        share = safe_utilization(plan.gpu.total_memory_bytes, _beside(plan))
        share = min(share, _MOST)
        if share <= now:
            return None
        changed = situation.again(gpu_memory_utilization=share)
        if changed is None or not changed.ranks:
            return None
        plan = changed
        if share <= safe_utilization(plan.gpu.total_memory_bytes, _beside(plan)):
            return share
    return None


def _beside(plan: Plan) -> int:
    """Return what vLLM's budget must leave: the most that is expected beside it."""
    most = max(sum(line.high_bytes for line in rank.outside) for rank in plan.ranks)
    return _taken(plan) + most


def _taken(plan: Plan) -> int:
    """Return what other processes hold."""
    gpu = plan.gpu
    if gpu.free_memory_bytes is None:
        return 0
    return gpu.total_memory_bytes - gpu.free_memory_bytes


def less_of_the_gpu(situation: Situation) -> Iterator[Candidate]:
    """Ask for no more than is free: first what also leaves room, then all of it."""
    plan = situation.plan
    if plan.error is None or plan.error.kind != "free_memory":
        return
    total = plan.gpu.total_memory_bytes
    roomy = floor(1000 * (total - _beside(plan)) / total)
    if roomy > 0:
        yield _less(roomy / 1000, "as much as is free and leaves room beside it")
    for thousandths in range(floor(1000 * _free(plan) / total), roomy, -1):
        changed = situation.again(gpu_memory_utilization=thousandths / 1000)
        error = None if changed is None else changed.error
        if error is None or error.kind != "free_memory":
            yield _less(thousandths / 1000, "all that is free when vLLM looks")
            return


def _free(plan: Plan) -> int:
    """Return what vLLM finds free: without its own context where nothing is given."""
    if plan.gpu.free_memory_bytes is not None:
        return plan.gpu.free_memory_bytes
    contexts = [
        line.size_bytes
        for rank in plan.ranks
        for line in rank.outside
        if line.name == CUDA_CONTEXT
    ]
    return plan.gpu.total_memory_bytes - max(contexts, default=0)


def _less(share: float, why: str) -> Candidate:
    return Candidate(
        kind="gpu_memory_utilization",
        title=f"Let vLLM use {share:g} of the GPU: {why}",
        changes={"gpu_memory_utilization": share},
        cost="A smaller KV cache than asked for; what other programs hold is not "
        "vLLM's to use.",
        burden=Burden.NOTHING,
    )


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
