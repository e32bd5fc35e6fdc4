"""How many requests of a load run at once: likely, and at most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from planner.errors import PlannerError
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import Serving, serving
from planner.solve.speed.work import Work, work_of
from planner.units import counted
from planner.values import frozen


@frozen
class Running:
    """Requests that run at once, in all replicas; the others of the load wait."""

    served: Serving
    """The plan with the load, replanned with its length where that is longer."""
    least: int
    """Even if all are at their full length, at the low end of the estimate's range."""
    likely: int
    """With the KV cache of the estimate and what a request holds on average."""
    most: int
    """With the KV cache at the high end of the estimate's range, of every kind of start
    that the plan knows."""
    held_at_most: int | None
    """What the KV cache holds then, whatever max_num_seqs is; None: no limit."""
    allowed: int
    """Requests that max_num_seqs allows, in all replicas."""


class Same:
    """A plan that equals only itself: comparing plans takes longer than a forecast."""

    __slots__ = ("plan",)

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same object."""
        return isinstance(other, Same) and other.plan is self.plan

    def __hash__(self) -> int:
        """Return the object's identity."""
        return id(self.plan)


@lru_cache(maxsize=8)
def known_work(plan: Same) -> Work:
    """Return `work_of` a plan, which many loads are asked of."""
    return work_of(plan.plan)


def running(plan: Plan, load: Load) -> Running:
    """Return how many requests of a load run at once.

    Raises:
        PlannerError: when vLLM refuses the plan or the load's length.
    """
    one = replace(load, requests=1)
    served, on_average = _served(Same(plan), one)
    resolved = served.plan.resolved
    if resolved is None:
        raise PlannerError("A plan that vLLM refuses has no speed.")
    allowed = plan.engines * resolved.max_num_seqs
    likely = _held(on_average, _likely_blocks(served.plan))
    most = _held(on_average, _most_blocks(served.plan))
    return Running(
        served=served,
        least=_within(load.requests, allowed, served.requests_certain),
        likely=_within(load.requests, allowed, likely),
        most=_within(load.requests, allowed, most),
        held_at_most=most,
        allowed=allowed,
    )


@lru_cache(maxsize=32)
def _served(plan: Same, load: Load) -> tuple[Serving, Serving]:
    """Return the plan with the load, at full length and as held on average."""
    served = serving(_long_enough(plan.plan, load), load)
    mean = replace(load, mean_prompt_tokens=load.mean_prompt)
    return served, serving(served.plan, mean)


def _long_enough(plan: Plan, load: Load) -> Plan:
    """Return the plan, replanned where its max_model_len is too short.

    Raises:
        PlannerError: when vLLM refuses that length.
    """
    resolved = plan.resolved
    if resolved is not None and resolved.max_model_len >= load.request_tokens:
        return plan
    planned = plan.changed(max_model_len=load.request_tokens)
    if planned.error is not None and planned.error.kind == "refused":
        raise PlannerError(
            f"A request of {counted(load.request_tokens, 'tokens')} cannot be served. "
            "vLLM says: "
            f"{planned.error.message}"
        )
    return planned


def _within(requests: int, allowed: int, held: int | None) -> int:
    return max(1, min(requests, allowed, allowed if held is None else held))


def _held(served: Serving, blocks: int) -> int | None:
    if not served.blocks_per_request:
        return None
    return served.held_by(blocks) * served.plan.engines


def _likely_blocks(plan: Plan) -> int:
    """Return the blocks of the planned start, or of one that starts where it does not.

    An old release that samples with FlashInfer starts where it would not without.
    """
    if plan.fits:
        return plan.num_gpu_blocks
    others = (other.num_gpu_blocks for other in plan.alternatives if other.starts)
    return max(plan.num_gpu_blocks, *others, 0)


def _most_blocks(plan: Plan) -> int:
    rank = plan.limiting_rank
    if rank is None or not rank.bytes_per_block:
        return 0
    sizes: Iterable[int] = (
        other.available_kv_cache_high_bytes for other in plan.alternatives
    )
    high = max(rank.available_kv_cache_high_bytes, *sizes, 0)
    return max(high // rank.bytes_per_block, _likely_blocks(plan))
