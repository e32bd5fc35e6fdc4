"""advise(): every single change that helps a plan, ranked, and the best pair."""

from __future__ import annotations

from planner.advice.judging import offered
from planner.advice.makers import MAKERS
from planner.advice.pairs import best_pair
from planner.advice.ranking import ranked
from planner.advice.result import Advice, AdviceItem
from planner.advice.situation import Situation
from planner.advice.warned import warnings
from planner.load import Load
from planner.result import Plan


def advise(plan: Plan, load: Load | None = None) -> Advice:
    """Say what to change so that a plan starts, or serves more.

    Every change is planned again, so that its gain is what planning it gives.

    Args:
        plan: what to start from.
        load: the requests it must serve; None: any at all, of max_model_len tokens.
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
    """Return what each maker offers; what two of them propose counts once."""
    found: dict[str, AdviceItem] = {}
    for name, make in MAKERS.items():
        item = offered(situation, make(situation))
        known = [other.changes for other in found.values()]
        if item is not None and item.changes not in known:
            found[name] = item
    return found
