"""Changes planned together: where none alone suffices, or they gain clearly more.

Where no single change of settings suffices, a second one is searched on the plan of the
first, also with fewer GPUs than tensor parallel alone takes, or several are added one
to another. Where one suffices, the
changes that gain most are planned two by two, and kept if they gain clearly more than
any single change of their cost. At most one combination of each cost class is offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations as pairs_of
from itertools import product
from typing import Any, TypeAlias

from planner.solve.advice.makers import (
    IN_THE_WAY,
    LADDERS,
    MAKERS,
    MORE_GPUS,
    NEVER_SECOND,
)
from planner.solve.advice.result import AdviceItem
from planner.solve.advice.situation import Burden, Candidate, CostClass, Situation
from planner.solve.advice.trying import build, offered

_FIRSTS = 3
_TOGETHER = 4
_OF_WEIGHTS = ("quantization", "model")
"""Kinds of changes that hold the weights in fewer bits: one of them at a time."""
_MOST_PARTS = 6
"""Changes that are tried one after the other, to serve together."""
_FEWEST_PARTS = 2
_FINER = 2
"""Changes of each class that are planned beside the best ones of lower cost."""
_CLEARLY_MORE = 1.25
Found = Mapping[str, AdviceItem]
"""The item that each maker offers, by the maker's name."""
Made: TypeAlias = "tuple[tuple[Any, ...], AdviceItem]"
"""A combination after its order among those of its cost class."""


def combined(situation: Situation, found: Found) -> tuple[AdviceItem, ...]:
    """Return the best combination of each cost class, that of least burden first."""
    if situation.is_served or any(
        item.serves and item.burden < Burden.HARDWARE for item in found.values()
    ):
        made = [*_gaining_more(situation, found)]
    else:
        made = _sufficient(situation, found)
    best: dict[CostClass, AdviceItem] = {}
    for _, item in sorted(made, key=lambda one: one[0]):
        best.setdefault(item.cost_class, item)
    return tuple(best.values())


def _sufficient(situation: Situation, found: Found) -> list[Made]:
    """Return combinations that serve: of settings, and with the fewest GPUs."""
    found = {**found, **_taking_away(situation, found)}
    made = _that_serve(situation, found, most=Burden.ABILITY)
    for most in (Burden.ACCURACY, Burden.ABILITY):
        if not any(item.burden <= most for _, item in made):
            made += _several(situation, found, most)
    if any(_serves_here(situation, found)):
        return [*made, *_with_fewer_gpus(situation, found)]
    return made or _that_serve(situation, found, most=Burden.HARDWARE)


def _with_fewer_gpus(situation: Situation, found: Found) -> Iterator[Made]:
    """Yield settings with a smaller tensor parallel size than it takes alone."""
    alone = found.get("tensor parallel")
    if alone is None:
        return
    for parts in _settings(found):
        first = parts[0] if len(parts) == 1 else together(situation, parts)
        if first is None or first.serves:
            continue
        after = situation.after(first.plan)
        second = offered(after, MAKERS["tensor parallel"](after))
        if second is None or not second.serves:
            continue
        if alone.serves and second.plan.gpus_total >= alone.plan.gpus_total:
            continue
        whole = together(situation, (*parts, second))
        if whole is not None and whole.serves:
            yield _made(whole, (*parts, second))


def _settings(found: Found) -> Iterator[list[AdviceItem]]:
    """Yield the settings that gain most, and the best two of those of little loss."""
    most = [found[name] for name in _firsts(found, most=Burden.ABILITY)]
    yield from ([item] for item in most[:_FIRSTS])
    cheap = [item for item in most if item.burden <= Burden.ACCURACY]
    if len(cheap) >= _FEWEST_PARTS:
        yield cheap[:_FEWEST_PARTS]


def _several(situation: Situation, found: Found, most: Burden) -> Iterator[Made]:
    """Yield the fewest of the changes that gain most, one added to another, that serve.

    A change is added where it gains, and left out again where the others suffice.
    """
    parts: list[AdviceItem] = []
    whole: AdviceItem | None = None
    for name in _firsts(found, most=most)[:_MOST_PARTS]:
        more = [*parts, found[name]]
        bigger = found[name] if not parts else together(situation, more)
        if bigger is None or (whole and _gain(bigger) <= _gain(whole)):
            continue
        parts, whole = more, bigger
        if whole.serves:
            break
    if whole is None or not whole.serves or len(parts) < _FEWEST_PARTS:
        return
    for part in sorted(parts, key=lambda item: -item.burden):
        fewer = [one for one in parts if one is not part]
        smaller = together(situation, fewer) if len(fewer) >= _FEWEST_PARTS else None
        if smaller is not None and smaller.serves:
            parts, whole = fewer, smaller
    yield _made(whole, parts)


def _made(whole: AdviceItem, parts: Iterable[AdviceItem]) -> Made:
    """Return a combination with its order: least burden, fewest GPUs, most gain."""
    burdens = sorted((int(part.burden) for part in parts), reverse=True)
    gpus = whole.plan.gpus_total
    gain = (-whole.gain_requests, -whole.gain_bytes, whole.title)
    return (burdens[0], gpus, burdens[1:], *gain), whole


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
                further[name] = build(situation, candidate, plan)
                break
    return further


def _that_serve(situation: Situation, found: Found, *, most: Burden) -> list[Made]:
    """Return the serving pairs of the first change that has any."""
    for name in _firsts(found, most=most)[:_FIRSTS]:
        made = list(_with_a_second(situation, name, found[name], most))
        if made:
            return made
    return []


def _firsts(found: Found, *, most: Burden) -> list[str]:
    """Return the names of changes, those that gain most first.

    Of several alike, such as checkpoints of 4 bits, only the best is tried.
    """
    names = [
        name
        for name, item in found.items()
        if item.burden <= most and not (item.kind == "gpu" and item.serves)
    ]
    names.sort(key=lambda name: _gain(found[name]), reverse=True)
    alike: dict[tuple[str, Burden], str] = {}
    for name in names:
        kind, burden = found[name].kind, found[name].burden
        alike.setdefault(("weights" if kind in _OF_WEIGHTS else kind, burden), name)
    return sorted(alike.values(), key=lambda name: name not in IN_THE_WAY)


def _with_a_second(
    situation: Situation, name: str, first: AdviceItem, most: Burden
) -> Iterator[Made]:
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
        second = offered(after, candidates)
        if second is None or not second.serves:
            continue
        least = _lowered_first(situation, name, first, second)
        pair = together(situation, (least, second))
        if pair is not None and pair.serves:
            yield _made(pair, (least, second))


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
    least = offered(again, MAKERS[name](again))
    return least if least is not None and least.serves else first


def _gaining_more(situation: Situation, found: Found) -> Iterator[Made]:
    """Yield pairs that gain clearly more than any change of at most their burden."""
    is_asked = situation.load is not None and not situation.is_served
    for one, other in _worth_trying(found.values()):
        if is_asked and (one.serves or other.serves):
            continue  # one of them serves the load
        pair = together(situation, (one, other))
        if pair is None or not pair.serves:
            continue
        no_dearer = [i for i in found.values() if i.burden <= pair.burden]
        requests = max(_requests(situation, item) for item in no_dearer)
        size = max(item.gain_bytes for item in no_dearer)
        gained = _requests(situation, pair)
        if gained > requests:
            is_clear = gained >= _CLEARLY_MORE * requests
        else:
            is_clear = pair.gain_bytes >= _CLEARLY_MORE * size
        if is_clear:
            yield _made(pair, (one, other))


def _requests(situation: Situation, item: AdviceItem) -> int:
    """Return the requests gained, as far as the load has so many."""
    gained, load = item.gain_requests, situation.load
    if load is None:
        return gained
    return min(gained, max(load.requests - situation.requests(situation.plan), 0))


def _worth_trying(
    found: Iterable[AdviceItem],
) -> Iterator[tuple[AdviceItem, AdviceItem]]:
    """Yield the pairs of the changes that gain most; dearer ones with cheap ones."""
    by_gain = sorted(found, key=lambda i: (i.serves, *_gain(i)), reverse=True)
    cheap = [item for item in by_gain if item.burden <= Burden.ACCURACY]
    finer = [item for item in by_gain if item.burden is Burden.ABILITY]
    more = [item for item in by_gain if item.burden is Burden.HARDWARE]
    yield from pairs_of(cheap[:_TOGETHER], 2)
    yield from product(finer[:_FINER], cheap[:_FINER])
    yield from pairs_of(finer[:_FINER], 2)
    yield from product(more[:_FINER], cheap[:_FINER])


def _gain(item: AdviceItem) -> tuple[int, int]:
    return item.gain_requests, item.gain_bytes


def together(situation: Situation, parts: Sequence[AdviceItem]) -> AdviceItem | None:
    """Plan changes together; None where two of them change the same argument."""
    changes: dict[str, Any] = {}
    for part in parts:
        if set(part.changes) & set(changes):
            return None
        changes |= part.changes
    plan = situation.again(**changes)
    if plan is None or not plan.ranks:
        return None
    first, *others = (part.title for part in parts)
    *middle, last = (title[:1].lower() + title[1:] for title in others)
    candidate = Candidate(
        argument=" and ".join(part.kind for part in parts),
        title=f"{', '.join((first, *middle))}, and {last}",
        changes=changes,
        cost=" ".join(part.cost for part in parts),
        burden=max(part.burden for part in parts),
    )
    return build(situation, candidate, plan)
