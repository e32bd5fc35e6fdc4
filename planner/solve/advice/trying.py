"""What one change does to a plan: planned again, and kept where it helps.

`offered` chooses among the candidates of one kind.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from planner.engine.settings import flags
from planner.planning.result import Plan
from planner.solve.advice.result import AdviceItem
from planner.solve.advice.situation import Candidate, Situation
from planner.units import MIB

_NO_FLAGS = ("model", "gpu", "vllm_version", "entrypoint", "env", "load")
"""Inputs of a plan that are not flags of vLLM."""
_WORTH_NAMING = 100
"""The least gain that is offered is this fraction (1/n) of KV cache or requests."""
_LEAST_BYTES = 16 * MIB
_NEARLY_ALL = 0.9


def item_of(situation: Situation, candidate: Candidate) -> AdviceItem | None:
    """Plan a candidate; None where it cannot be planned or does not help."""
    plan = situation.again(**candidate.changes)
    if plan is None:
        return None
    item = build(situation, candidate, plan)
    return item if _helps(situation, item) else None


def build(situation: Situation, candidate: Candidate, plan: Plan) -> AdviceItem:
    """Return the planned candidate, helpful or not."""
    base = situation.plan
    return AdviceItem(
        kind=candidate.kind,
        title=candidate.title,
        changes=dict(candidate.changes),
        flags=flags_of(candidate.changes),
        removed_flags=removed_flags(candidate.changes),
        cost=candidate.cost,
        plan=plan,
        gain_bytes=_available_bytes(plan) - _available_bytes(base),
        gain_tokens=plan.kv_cache_size_tokens - base.kv_cache_size_tokens,
        gain_tokens_all_engines=plan.all_engines.kv_cache_size_tokens
        - base.all_engines.kv_cache_size_tokens,
        gain_requests=situation.requests(plan) - situation.requests(base),
        starts=plan.fits,
        serves=situation.serves(plan),
        burden=candidate.burden,
    )


def _available_bytes(plan: Plan) -> int:
    """Return the limiting rank's KV cache; 0 where vLLM refuses before sizing it."""
    rank = plan.limiting_rank
    return 0 if rank is None else rank.available_kv_cache_bytes


def flags_of(changes: Mapping[str, object]) -> str:
    """Return the flags that changes add to vLLM's command line, or change there.

    >>> flags_of({"max_model_len": 4096, "gpu": "H200", "block_size": None})
    '--max-model-len 4096'
    """
    given = {
        name: value
        for name, value in changes.items()
        if name not in _NO_FLAGS and value is not None
    }
    return shlex.join(flags(given))


def removed_flags(changes: Mapping[str, object]) -> str:
    """Return the flags that changes remove from vLLM's command line.

    >>> removed_flags({"num_gpu_blocks_override": None, "max_num_seqs": 4})
    '--num-gpu-blocks-override'
    """
    names = [name for name, value in changes.items() if value is None]
    return " ".join("--" + name.replace("_", "-") for name in names)


def _helps(situation: Situation, item: AdviceItem) -> bool:
    """Whether a change makes a plan start or serve, or gains 1 % without a loss."""
    base = situation.plan
    if item.serves and not situation.is_served:
        return True
    if item.starts != base.fits:
        return item.starts
    if not item.plan.ranks or item.gain_requests < 0 or _is_stuck(item.plan):
        return False
    least = max(situation.requests(base) / _WORTH_NAMING, 1)
    # More requests than the load has are no gain.
    is_enough = situation.load is not None and situation.is_served
    gains_requests = item.gain_requests >= least and not is_enough
    return gains_requests or _is_worth_naming(base, item)


def _is_stuck(plan: Plan) -> bool:
    """Whether vLLM still refuses the settings, or has less free than its budget."""
    return plan.error is not None and plan.error.kind in ("free_memory", "refused")


def _is_worth_naming(base: Plan, item: AdviceItem) -> bool:
    """Whether the KV cache grows by at least 1 %; a model without one has no use."""
    if base.ranks and not base.kv_groups:
        return False
    least_bytes = max(abs(_available_bytes(base)) / _WORTH_NAMING, _LEAST_BYTES)
    least_tokens = max(base.kv_cache_size_tokens / _WORTH_NAMING, 1)
    gains_tokens = item.gain_tokens >= least_tokens and item.gain_bytes >= 0
    gains_bytes = item.gain_bytes >= least_bytes and item.gain_tokens >= 0
    return gains_bytes or gains_tokens


def offered(situation: Situation, candidates: Iterable[Candidate]) -> AdviceItem | None:
    """Return the first candidate that suffices, else the best one that helps.

    Candidates of one kind are ordered from the smallest change to the largest. One
    suffices if it serves; where the plan already serves, if it gains anything.
    """
    found: list[AdviceItem] = []
    for candidate in candidates:
        item = item_of(situation, candidate)
        if item is None:
            continue
        if item.serves:
            return item
        found.append(item)
    return _most(found)


def _most(found: list[AdviceItem]) -> AdviceItem | None:
    """Return the first item with nearly the largest gain; starting takes precedence."""
    starting = [item for item in found if item.starts] or found
    requests = max((item.gain_requests for item in starting), default=0)
    held = [item for item in starting if item.gain_requests >= _NEARLY_ALL * requests]
    if requests:
        return held[0]
    most = max((item.gain_bytes for item in held), default=0)
    return next((item for item in held if item.gain_bytes >= _NEARLY_ALL * most), None)
