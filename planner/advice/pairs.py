"""Two changes together, planned together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from planner.advice.candidate import Burden, Candidate
from planner.advice.judging import build
from planner.advice.result import AdviceItem
from planner.advice.situation import Situation

_TRIED = 6
_CLEARLY_MORE = 1.25


def best_pair(situation: Situation, found: Sequence[AdviceItem]) -> AdviceItem | None:
    """Return the best two changes of different kinds together, or None.

    Offered where no single change serves, and where two gain clearly more than the
    better of them: a quarter more requests, or bytes where requests stay.
    """
    if any(item.serves for item in found) or situation.is_served:
        return _gaining_more(situation, found)
    pairs = _planned(situation, _by_gain(found))
    return min((pair for pair in pairs if pair.serves), key=_asks, default=None)


def _asks(pair: AdviceItem) -> tuple[int, int, int]:
    return int(pair.burden), -pair.gain_requests, -pair.gain_bytes


def _by_gain(found: Iterable[AdviceItem]) -> list[AdviceItem]:
    """Return the few changes that gain most."""
    return sorted(
        found,
        key=lambda item: (item.starts, item.gain_requests, item.gain_bytes),
        reverse=True,
    )[:_TRIED]


def _gaining_more(
    situation: Situation, found: Sequence[AdviceItem]
) -> AdviceItem | None:
    cheap = [item for item in found if item.burden <= Burden.ACCURACY]
    pairs = _planned(situation, _by_gain(cheap)[:4])
    best = max(pairs, key=lambda p: (p.serves, *_gain(p)), default=None)
    most = max((_gain(item) for item in cheap), default=(0, 0))
    if best is None or not best.serves:
        return None
    requests, size = _gain(best)
    if requests > most[0]:
        return best if requests >= _CLEARLY_MORE * most[0] else None
    return best if size >= _CLEARLY_MORE * most[1] else None


def _gain(item: AdviceItem) -> tuple[int, int]:
    return item.gain_requests, item.gain_bytes


def _planned(situation: Situation, items: Sequence[AdviceItem]) -> list[AdviceItem]:
    """Plan every two of them that change different arguments."""
    made = (together(situation, one, other) for one, other in combinations(items, 2))
    return [pair for pair in made if pair is not None]


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
