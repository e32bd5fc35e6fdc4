"""The stages of a Ray Data LLM pipeline: how many workers each has, and what one takes.

Rows pass preprocess, the stages on CPUs, the engine, detokenize and postprocess. The
first and the last are map tasks; the others are pools of actors.

Source: Ray 2.60.0 `llm/_internal/batch/processor/base.py` Processor.__call__,
`processor/vllm_engine_proc.py` build_vllm_engine_processor, `processor/utils.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planner.ray.bundles import Bundle, PlacementGroup

PREPROCESS, POSTPROCESS = "preprocess", "postprocess"
ENGINE = "vLLMEngineStage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of a pipeline."""

    name: str
    """preprocess, postprocess, or Ray's class: vLLMEngineStage, TokenizeStage, ..."""
    is_actors: bool
    """Whether its workers are actors, which keep what they take until the end; else
    they are tasks, which give it back after each block of rows."""
    workers_minimum: int
    """What the pool never falls below; of tasks one, without which no row passes."""
    workers_maximum: int | None
    """None: Ray starts as many tasks as there is room for."""
    worker: PlacementGroup
    """What one worker takes."""
    actor: Bundle | None = None
    """Of an engine with a placement group: what the actor asks for within it."""

    @property
    def is_engine(self) -> bool:
        """Whether this stage runs vLLM."""
        return self.name == ENGINE

    @property
    def gpus_minimum(self) -> float:
        """GPUs of the fewest workers."""
        return self.workers_minimum * self.worker.gpus

    @property
    def gpus_maximum(self) -> float:
        """GPUs of the most workers; without a limit, those of one."""
        return self._most * self.worker.gpus

    @property
    def cpus_minimum(self) -> float:
        """CPUs of the fewest workers."""
        return self.workers_minimum * self.worker.cpus

    @property
    def cpus_maximum(self) -> float:
        """CPUs of the most workers; without a limit, those of one."""
        return self._most * self.worker.cpus

    @property
    def _most(self) -> int:
        most = self.workers_maximum
        return self.workers_minimum if most is None else most

    def to_dict(self) -> dict[str, Any]:
        """Return the stage as plain values."""
        return {
            "name": self.name,
            "kind": "actors" if self.is_actors else "tasks",
            "workers_minimum": self.workers_minimum,
            "workers_maximum": self.workers_maximum,
            "gpus_per_worker": self.worker.gpus,
            "cpus_per_worker": self.worker.cpus,
            "gpus_minimum": self.gpus_minimum,
            "gpus_maximum": self.gpus_maximum,
            "cpus_minimum": self.cpus_minimum,
            "cpus_maximum": self.cpus_maximum,
            "worker": self.worker.to_dict(),
            "is_group": not self.worker.is_single_request,
        }
