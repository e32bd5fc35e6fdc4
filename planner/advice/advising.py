"""advise(): every single change that helps a plan, ranked, and the best pair."""

from __future__ import annotations

from planner.advice.judging import offered
from planner.advice.makers import MAKERS
from planner.advice.pairs import best_pair
from planner.advice.ranking import ranked
from planner.advice.result import Advice
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
    offers = (offered(situation, make(situation)) for make in MAKERS.values())
    found = [item for item in offers if item is not None]
    return Advice(
        plan=plan,
        load=load,
        request_tokens=situation.request_tokens,
        requests=situation.requests(plan),
        items=ranked(situation, found),
        pair=best_pair(situation, found),
        warnings=warnings(situation),
    )
