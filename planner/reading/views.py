"""What is done with a reading by what makes readings itself."""

from __future__ import annotations

from planner.reading.reading import Explainer
from planner.registries import registry


def _explainer() -> Explainer:
    from planner.reading.logs.explaining import explain
    from planner.reading.logs.logs import log_lines
    from planner.reading.rewriting import edits

    return Explainer(explain=explain, edits=edits, lines=log_lines)


REGISTRY = registry(_explainer)
