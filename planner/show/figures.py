"""The key figures of a plan: how much KV cache, how many requests, of what length.

A figure that cannot be there is left out: nothing is stored where weights do not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.planning.words import otherwise
from planner.show.verdict import stores_nothing
from planner.units import counted, format_gib
from planner.values import frozen

if TYPE_CHECKING:
    from planner.planning.defaults import ResolvedSettings
    from planner.planning.result import Alternative, Plan

NONE = "none"
_AVAILABLE = "Available KV cache"


@frozen
class Figure:
    """One of the key figures, under vLLM's name for it."""

    name: str
    text: str
    detail: str


def key_figures(plan: Plan) -> tuple[Figure, ...]:
    """Return the key figures; of what vLLM does not come to, none.

    First and later starts are told apart where their verdict is another.

    Source: the names are those of vLLM 0.33.0's log (`v1/core/kv_cache_utils.py`).
    """
    if plan.limiting_rank is None or plan.resolved is None:
        return ()
    if stores_nothing(plan):
        return _figures_without_cache(plan, plan.resolved)
    available = min(rank.available_kv_cache_bytes for rank in plan.ranks)
    kind = "" if plan.error is None else plan.error.kind
    if available <= 0 or kind == "weights":
        short = f"short by {format_gib(-available)}"
        why = "weights do not fit" if kind == "weights" else short
        return (Figure(name=_AVAILABLE, text=NONE, detail=why),)
    return (
        _available(plan, available),
        *(start_figures(plan) if _starts_differ(plan) else ()),
        *_sizes(plan, plan.resolved, holds_requests=kind != "refused"),
        _longest(plan),
    )


def start_figures(plan: Plan) -> tuple[Figure, ...]:
    """Return the KV cache of a first start and of later ones, where it differs.

    Empty where neither leaves any.
    """
    found = plan.alternatives
    is_any = any(one.available_kv_cache_bytes > 0 for one in found)
    return tuple(Figure(**otherwise(one)) for one in found if is_any)


def _starts_differ(plan: Plan) -> bool:
    """Whether a first start has another verdict than later ones."""
    return len({_starts_and_serves(plan, one) for one in plan.alternatives}) > 1


def _starts_and_serves(plan: Plan, one: Alternative) -> tuple[bool, bool]:
    """Return whether it starts, and whether its low end holds the load."""
    served, rank = plan.serving, plan.limiting_rank
    if served is None or rank is None:
        return one.starts, True
    blocks = one.available_kv_cache_low_bytes // rank.bytes_per_block
    return one.starts, blocks >= served.needed_blocks


def _sizes(
    plan: Plan, resolved: ResolvedSettings, *, holds_requests: bool
) -> tuple[Figure, ...]:
    """Return tokens and, of a length that vLLM accepts, requests at once."""
    whole = plan.all_engines
    one_tokens = f"{max(plan.kv_cache_size_tokens, 0):,}"
    one_holds = f"{max(plan.max_concurrency, 0):,.2f}x"
    of_length = f"requests of {counted(resolved.max_model_len, 'tokens')}"
    is_split = plan.engines > 1
    on_all = f" on {plan.engines} engines, each " if is_split else ""
    size = Figure(
        name=f"{plan.gpu.kind} KV cache size",
        text=f"{max(whole.kv_cache_size_tokens, 0):,}",
        detail=f"tokens{on_all}{one_tokens if is_split else ''}",
    )
    if not holds_requests:
        return (size,)
    concurrency = Figure(
        name="Maximum concurrency",
        text=f"{max(whole.max_concurrency, 0):,.2f}x",
        detail=f"{of_length}{on_all}{one_holds if is_split else ''}",
    )
    return size, concurrency


def _figures_without_cache(
    plan: Plan, resolved: ResolvedSettings
) -> tuple[Figure, ...]:
    """Return the figures of a model whose layers store nothing between steps."""
    margin = plan.margin_bytes or 0
    engines = f" on {plan.engines} engines" if plan.engines > 1 else ""
    return (
        Figure(
            name="Left of the budget" if margin >= 0 else "Over the budget",
            text=format_gib(abs(margin)),
            detail=f"per {plan.gpu.kind}{', unused' if margin >= 0 else ''}",
        ),
        Figure(
            name=f"{plan.gpu.kind} KV cache size",
            text="0",
            detail="tokens: nothing is stored between steps",
        ),
        Figure(
            name="Requests in one step",
            text=f"{resolved.max_num_seqs * plan.engines:,}",
            detail=f"by max_num_seqs{engines}",
        ),
        _longest(plan),
    )


def _longest(plan: Plan) -> Figure:
    """Return the longest length; where vLLM's message names another, say why."""
    longest, estimated = plan.max_model_len_that_fits, plan.estimated_max_model_len
    is_named = plan.error is not None and plan.error.kind == "max_model_len"
    detail = "" if longest is None else "tokens that fit"
    if is_named and estimated is not None and estimated != longest:
        detail += f" at the low end; vLLM's {estimated:,} is for the middle"
    return Figure(
        name="Longest max_model_len",
        text="none fits" if longest is None else f"{longest:,}",
        detail=detail.lstrip(),
    )


def _available(plan: Plan, available: int) -> Figure:
    """Return the KV cache of the GPU that has least, which vLLM logs for each."""
    low = min(rank.available_kv_cache_low_bytes for rank in plan.ranks)
    high = min(rank.available_kv_cache_high_bytes for rank in plan.ranks)
    least = format_gib(low) if low > 0 else NONE
    return Figure(
        name=_AVAILABLE,
        text=format_gib(available),
        detail=f"per {plan.gpu.kind}"
        if low == high
        else f"{least} to {format_gib(high)}",
    )
