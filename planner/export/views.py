"""What is done with a reading by what makes readings itself."""

from __future__ import annotations

from planner.export.texts.reading import Explainer
from planner.registries import registry


def _explainer() -> Explainer:
    from planner.export.texts.explaining import explain
    from planner.export.texts.rewriting import edits

    return Explainer(explain=explain, edits=edits)


REGISTRY = registry(_explainer)
