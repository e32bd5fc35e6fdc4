"""What a pipeline does not do as its numbers suggest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.ray.pipelines import Caution

if TYPE_CHECKING:
    from planner.ray.pipelines import Pipeline


def cautions(pipeline: Pipeline) -> tuple[Caution, ...]:
    """Return what to know before the pipeline is started, most serious first."""
    del pipeline
    return ()
