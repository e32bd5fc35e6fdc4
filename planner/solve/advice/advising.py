"""advise(): every single change that helps a plan, ranked, and combinations of them.

Whether a change helps is found by planning it.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.given import named_in_errors
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.solve.advice.caveats import warnings
from planner.solve.advice.combining import combined
from planner.solve.advice.makers import MAKERS
from planner.solve.advice.result import Advice, AdviceItem
from planner.solve.advice.situation import Burden, Situation
from planner.solve.advice.trying import offered


@named_in_errors
def advise(plan: Plan, load: Load | None = None) -> Advice:
    """Return the changes that make a plan start, or serve more.

    Every change is planned again, so its gain is exact.

    Args:
        plan: the plan to improve.
        load: requests that it must serve; None: those of the plan, and where it has
            none, any number of them of max_model_len tokens.
    """
    situation = Situation.of(plan, load)
    found = _found(situation)
    return Advice(
        plan=plan,
        load=situation.load,
        request_tokens=situation.request_tokens,
        requests=situation.requests(plan),
        items=ranked(situation, found.values()),
        combinations=combined(situation, found),
        warnings=warnings(situation),
    )


def _found(situation: Situation) -> dict[str, AdviceItem]:
    """Return the item of each maker; a change that two propose counts once."""
    found: dict[str, AdviceItem] = {}
    # A load that is served needs no more hardware.
    is_enough = situation.load is not None and situation.is_served
    for name, make in MAKERS.items():
        made = make(situation)
        if is_enough:
            made = (one for one in made if one.burden < Burden.HARDWARE)
        item = offered(situation, made)
        known = [other.changes for other in found.values()]
        if item is not None and item.changes not in known:
            found[name] = item
    return found


def ranked(situation: Situation, found: Iterable[AdviceItem]) -> tuple[AdviceItem, ...]:
    """Return changes in order, the best first.

    Those that serve (without a load: start) come first, then those that start. Among
    changes that make a plan serve, the smallest burden comes first; among others, those
    after which answers stay practically the same come first and other hardware last.
    Then the gain in requests and bytes decides.
    """
    is_served = situation.is_served

    def key(item: AdviceItem) -> tuple[object, ...]:
        suffices = item.serves and not is_served
        cost = item.burden if suffices else max(item.burden, Burden.ACCURACY)
        return (
            not item.serves,
            not item.starts,
            int(cost),
            -item.gain_requests,
            -item.gain_bytes,
            -item.gain_tokens,
            item.title,
        )

    return tuple(sorted(found, key=key))
