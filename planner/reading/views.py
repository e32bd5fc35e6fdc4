"""What is done with a reading by what makes readings itself."""

from __future__ import annotations

from planner.reading.reading import Explainer
from planner.registries import registry


def _explainer() -> Explainer:
    from planner.reading.explaining import explain
    from planner.reading.rewriting import edits

    return Explainer(explain=explain, edits=edits)


REGISTRY = registry(_explainer)
