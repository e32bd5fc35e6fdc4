"""advise(): every single change that helps a plan, ranked, and the best pair.

Whether a change helps is found by planning it. Where no single change of settings
suffices, a second one is searched on the plan of the first. Where one suffices, a pair
is offered only if it gains clearly more.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from planner.engine.settings import flags
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.solve.advice.caveats import warnings
from planner.solve.advice.makers import (
    IN_THE_WAY,
    LADDERS,
    MAKERS,
    MORE_GPUS,
    NEVER_SECOND,
)
from planner.solve.advice.result import Advice, AdviceItem
from planner.solve.advice.situation import Burden, Candidate, Situation
from planner.units import MIB

_FIRSTS = 3
_TOGETHER = 4
_CLEARLY_MORE = 1.25
Found = Mapping[str, AdviceItem]
"""The item that each maker offers, by the maker's name."""
_NO_FLAGS = ("model", "gpu", "vllm_version", "entrypoint", "env")
"""Inputs of a plan that are not flags of vLLM."""
_WORTH_NAMING = 100
"""The least gain that is offered is this fraction (1/n) of the KV cache."""
_LEAST_BYTES = 16 * MIB
_NEARLY_ALL = 0.9


def advise(plan: Plan, load: Load | None = None) -> Advice:
    """Return the changes that make a plan start, or serve more.

    Every change is planned again, so its gain is exact.

    Args:
        plan: the plan to improve.
        load: requests that it must serve; None: any number, of max_model_len tokens.
    """
    situation = Situation.of(plan, load)
    found = _found(situation)
    return Advice(
        plan=plan,
        load=load,
        request_tokens=situation.request_tokens,
        requests=situation.requests(plan),
        items=ranked(situation, found.values()),
        pair=best_pair(situation, found),
        warnings=warnings(situation),
    )


def _found(situation: Situation) -> dict[str, AdviceItem]:
    """Return the item of each maker; a change that two propose counts once."""
    found: dict[str, AdviceItem] = {}
    for name, make in MAKERS.items():
        item = _offered(situation, make(situation))
        known = [other.changes for other in found.values()]
        if item is not None and item.changes not in known:
            found[name] = item
    return found


def ranked(situation: Situation, found: Iterable[AdviceItem]) -> tuple[AdviceItem, ...]:
    """Return changes in order.

    Those that serve (without a load: start) come first, then those that start. Among
    changes that make a plan serve, the smallest burden comes first; among others, other
    hardware comes last. Then the gain in requests and bytes decides.
    """
    is_served = situation.is_served

    def key(item: AdviceItem) -> tuple[object, ...]:
        suffices = item.serves and not is_served
        cost = int(item.burden) if suffices else int(item.needs_hardware)
        return (
            not item.serves,
            not item.starts,
            cost,
            -item.gain_requests,
            -item.gain_bytes,
            -item.gain_tokens,
            item.title,
        )

    return tuple(sorted(found, key=key))


def best_pair(situation: Situation, found: Found) -> AdviceItem | None:
    """Return the best pair of changes of different kinds, or None."""
    if situation.is_served or any(
        item.serves and item.burden < Burden.HARDWARE for item in found.values()
    ):
        return _gaining_more(situation, found)
    found = {**found, **_taking_away(situation, found)}
    pair = _that_serves(situation, found, most=Burden.ABILITY)
    if pair is None and not any(_serves_here(situation, found)):
        pair = _that_serves(situation, found, most=Burden.HARDWARE)
    return pair


def _serves_here(situation: Situation, found: Found) -> Iterator[bool]:
    """Yield for each change whether it serves on GPUs with as little free memory.

    Another GPU is assumed to be empty, which does not help against other processes.
    """
    error = situation.plan.error
    is_shared = error is not None and error.kind == "free_memory"
    for item in found.values():
        yield item.serves and not (is_shared and item.kind == "gpu")


def _taking_away(situation: Situation, found: Found) -> Found:
    """Return changes after which vLLM gets further, although none suffices alone.

    vLLM checks sizes and free memory before it loads anything; the second change then
    provides what is still missing.
    """
    error = situation.plan.error
    further: dict[str, AdviceItem] = {}
    for name in IN_THE_WAY:
        if error is None or name in found:
            continue
        for candidate in MAKERS[name](situation):
            plan = situation.again(**candidate.changes)
            if plan is not None and (
                plan.error is None or plan.error.kind != error.kind
            ):
                further[name] = _build(situation, candidate, plan)
                break
    return further


def _that_serves(
    situation: Situation, found: Found, *, most: Burden
) -> AdviceItem | None:
    """Return the serving pair with the smallest burden, which is at most `most`."""
    firsts = sorted(
        (
            name
            for name, item in found.items()
            if item.burden <= most and not (item.kind == "gpu" and item.serves)
        ),
        key=lambda name: _gain(found[name]),
        reverse=True,
    )
    firsts.sort(key=lambda name: name not in IN_THE_WAY)
    for name in firsts[:_FIRSTS]:
        pairs = _with_a_second(situation, name, found[name], most)
        best = min(pairs, key=_cost_order, default=None)
        if best is not None:
            return best
    return None


def _with_a_second(
    situation: Situation, name: str, first: AdviceItem, most: Burden
) -> Iterator[AdviceItem]:
    """Yield the pairs of a change and any second one that serve."""
    after = situation.after(first.plan)
    for other, make in MAKERS.items():
        if other in (name, *NEVER_SECOND):
            continue
        if other == "larger GPU" and name not in MORE_GPUS:
            continue
        candidates = [c for c in make(after) if c.burden <= most]
        if other in LADDERS and not _any_serves(after, candidates[-1:]):
            continue
        second = _offered(after, candidates)
        if second is None or not second.serves:
            continue
        pair = together(
            situation, _lowered_first(situation, name, first, second), second
        )
        if pair is not None and pair.serves:
            yield pair


def _any_serves(situation: Situation, candidates: Sequence[Candidate]) -> bool:
    """Whether any of the candidates serves, even if it does not count as help."""
    plans = (situation.again(**candidate.changes) for candidate in candidates)
    return any(plan is not None and situation.serves(plan) for plan in plans)


def _lowered_first(
    situation: Situation, name: str, first: AdviceItem, second: AdviceItem
) -> AdviceItem:
    """Return the smallest form of the first change that serves with the second."""
    before = situation.again(**second.changes)
    if before is None:
        return first
    again = situation.after(before)
    least = _offered(again, MAKERS[name](again))
    return least if least is not None and least.serves else first


def _cost_order(pair: AdviceItem) -> tuple[int, int, int]:
    return int(pair.burden), -pair.gain_requests, -pair.gain_bytes


def _gaining_more(situation: Situation, found: Found) -> AdviceItem | None:
    """Return two changes of settings that together gain clearly more than each."""
    cheap = [item for item in found.values() if item.burden <= Burden.ACCURACY]
    cheap.sort(key=lambda item: (item.serves, *_gain(item)), reverse=True)
    made = (together(situation, *two) for two in combinations(cheap[:_TOGETHER], 2))
    best = max(
        (pair for pair in made if pair is not None and pair.serves),
        key=_gain,
        default=None,
    )
    if best is None:
        return None
    requests, size = max(_gain(item) for item in cheap)
    if best.gain_requests > requests:
        return best if best.gain_requests >= _CLEARLY_MORE * requests else None
    return best if best.gain_bytes >= _CLEARLY_MORE * size else None


def _gain(item: AdviceItem) -> tuple[int, int]:
    return item.gain_requests, item.gain_bytes


def together(
    situation: Situation, one: AdviceItem, other: AdviceItem
) -> AdviceItem | None:
    """Plan two changes together; None where both change the same argument."""
    if set(one.changes) & set(other.changes):
        return None
    changes = {**one.changes, **other.changes}
    plan = situation.again(**changes)
    if plan is None or not plan.ranks:
        return None
    candidate = Candidate(
        kind=f"{one.kind} and {other.kind}",
        title=f"{one.title}, and {other.title[:1].lower()}{other.title[1:]}",
        changes=changes,
        cost=f"{one.cost} {other.cost}",
        burden=max(one.burden, other.burden),
    )
    return _build(situation, candidate, plan)


def _item_of(situation: Situation, candidate: Candidate) -> AdviceItem | None:
    """Plan a candidate; None where it cannot be planned or does not help."""
    plan = situation.again(**candidate.changes)
    if plan is None:
        return None
    item = _build(situation, candidate, plan)
    return item if _helps(situation, item) else None


def _build(situation: Situation, candidate: Candidate, plan: Plan) -> AdviceItem:
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
    """Whether a change makes a plan start, or gains without a loss."""
    base = situation.plan
    if item.serves and not situation.is_served:
        return True
    if item.starts != base.fits:
        return item.starts
    if not item.plan.ranks or item.gain_requests < 0 or _is_stuck(item.plan):
        return False
    return item.gain_requests > 0 or _is_worth_naming(base, item)


def _is_stuck(plan: Plan) -> bool:
    """Whether vLLM still refuses the settings, or has less free than its budget."""
    return plan.error is not None and plan.error.kind in ("free_memory", "refused")


def _is_worth_naming(base: Plan, item: AdviceItem) -> bool:
    """Whether the KV cache grows by more than rounding."""
    least_bytes = max(abs(_available_bytes(base)) // _WORTH_NAMING, _LEAST_BYTES)
    least_tokens = max(base.kv_cache_size_tokens // _WORTH_NAMING, 1)
    gains_tokens = item.gain_tokens >= least_tokens and item.gain_bytes >= 0
    gains_bytes = item.gain_bytes >= least_bytes and item.gain_tokens >= 0
    return gains_bytes or gains_tokens


def _offered(
    situation: Situation, candidates: Iterable[Candidate]
) -> AdviceItem | None:
    """Return the first candidate that suffices, else the best one that helps.

    Candidates of one kind are ordered from the smallest change to the largest. One
    suffices if it serves; where the plan already serves, if it gains anything.
    """
    found: list[AdviceItem] = []
    for candidate in candidates:
        item = _item_of(situation, candidate)
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
