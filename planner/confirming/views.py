"""What confirming does for a plan: let vLLM start for it without a GPU."""

from __future__ import annotations

from planner.planning.result import DryStarter
from planner.registries import registry


def _dry_starter() -> DryStarter:
    from planner.confirming.dry.run import of_plan

    return DryStarter(dry_run=of_plan)


REGISTRY = registry(_dry_starter)
