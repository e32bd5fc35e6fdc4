"""Two changes together, planned together.

Where no single change of settings suffices, the second is sought on the plan of the
first; where one suffices, two are offered that gain clearly more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from planner.advice.candidate import Burden, Candidate
from planner.advice.judging import build, offered
from planner.advice.makers import (
    IN_THE_WAY,
    LADDERS,
    MAKERS,
    MORE_GPUS,
    NEVER_SECOND,
)
from planner.advice.result import AdviceItem
from planner.advice.situation import Situation

_FIRSTS = 3
_TOGETHER = 4
_CLEARLY_MORE = 1.25

Found = Mapping[str, AdviceItem]
"""What each maker offers."""


def best_pair(situation: Situation, found: Found) -> AdviceItem | None:
    """Return the best two changes of different kinds together, or None."""
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
    """Yield of each change whether it serves on GPUs as full as these are.

    Another GPU is taken to be empty, so it is no answer to others on this one.
    """
    error = situation.plan.error
    is_shared = error is not None and error.kind == "free_memory"
    for item in found.values():
        yield item.serves and not (is_shared and item.kind == "gpu")


def _taking_away(situation: Situation, found: Found) -> Found:
    """Return changes after which vLLM gets further, though none helps alone.

    It looks at sizes and at free memory before it loads anything: what it then lacks is
    for the second change.
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
                further[name] = build(situation, candidate, plan)
                break
    return further


def _that_serves(
    situation: Situation, found: Found, *, most: Burden
) -> AdviceItem | None:
    """Return the pair that serves and asks least, of those that ask up to `most`."""
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
        best = min(pairs, key=_asks, default=None)
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
        if other in LADDERS and not _serves(after, candidates[-1:]):
            continue
        second = offered(after, candidates)
        if second is None or not second.serves:
            continue
        pair = together(situation, _least(situation, name, first, second), second)
        if pair is not None and pair.serves:
            yield pair


def _serves(situation: Situation, candidates: Sequence[Candidate]) -> bool:
    """Whether one of some candidates serves, where it helps or not."""
    plans = (situation.again(**candidate.changes) for candidate in candidates)
    return any(plan is not None and situation.serves(plan) for plan in plans)


def _least(
    situation: Situation, name: str, first: AdviceItem, second: AdviceItem
) -> AdviceItem:
    """Return the least of the first change that serves beside the second."""
    before = situation.again(**second.changes)
    if before is None:
        return first
    again = situation.after(before)
    least = offered(again, MAKERS[name](again))
    return least if least is not None and least.serves else first


def _asks(pair: AdviceItem) -> tuple[int, int, int]:
    return int(pair.burden), -pair.gain_requests, -pair.gain_bytes


def _gaining_more(situation: Situation, found: Found) -> AdviceItem | None:
    """Return two changes of settings that gain clearly more than each alone."""
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
    """Plan two changes together; None where they change the same argument."""
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
    return build(situation, candidate, plan)
