"""What planning does for a plan that it could not import: it makes plans itself."""

from __future__ import annotations

from planner.planning.result import Replanner
from planner.registries import registry


def _replanner() -> Replanner:
    from planner.planning.inputs import changed
    from planner.planning.planning import plan_again
    from planner.planning.serving import of_plan

    return Replanner(plan=plan_again, changed=changed, serving=of_plan)


REGISTRY = registry(_replanner)
