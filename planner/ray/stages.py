"""The stages of a Ray Data LLM pipeline: workers, their resources, the object store.

Rows pass preprocess, the stages on CPUs, the engine, detokenize and postprocess. The
first and the last are map tasks; the others are pools of actors. Rows between stages
are in the nodes' object stores; when Ray Data's part of those is full, stages wait.

Source: Ray 2.60.0 `llm/_internal/batch/processor/base.py` Processor.__call__,
`processor/vllm_engine_proc.py` build_vllm_engine_processor, `processor/utils.py`;
Ray 2.44.1 to 2.60.0 `data/context.py` DEFAULT_TARGET_MAX_BLOCK_SIZE and
DEFAULT_MAX_NUM_BLOCKS_IN_STREAMING_GEN_BUFFER, `data/_internal/execution/
resource_manager.py` DEFAULT_OBJECT_STORE_MEMORY_LIMIT_FRACTION,
`_private/ray_constants.py` DEFAULT_OBJECT_STORE_MEMORY_PROPORTION.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from planner.ray.bundles import Bundle, Node, PlacementGroup
from planner.values import frozen

PREPROCESS, POSTPROCESS = "preprocess", "postprocess"
ENGINE = "vLLMEngineStage"
BLOCK_BYTES = 128 * 2**20
"""The most a block of rows takes; blocks of text are far smaller."""
BLOCKS_OF_A_TASK = 2
"""Blocks that a running task keeps ready for the next stage."""
MOST_OF_A_NODE = 200 * 10**9
"""Ray's upper bound on the object store of one node."""


@frozen
class Stage:
    """One stage of a pipeline."""

    name: str
    """preprocess, postprocess, or Ray's class: vLLMEngineStage, TokenizeStage, ..."""
    is_actors: bool
    """Whether its workers are actors, which keep their resources until the end; tasks
    release them after each block of rows."""
    workers_minimum: int
    """The size of the pool at least; for tasks 1, without which no row passes."""
    workers_maximum: int | None
    """None: Ray starts as many tasks as there is room for."""
    worker: PlacementGroup
    """What one worker reserves."""
    actor: Bundle | None = None
    """For an engine with a placement group: what its actor requests within it."""

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


def in_flight_bytes(stages: Iterable[Stage]) -> int:
    """Return the most that the output of running tasks takes, with every block full.

    >>> in_flight_bytes(())
    0
    """
    workers = sum(
        stage.workers_minimum
        if stage.workers_maximum is None
        else stage.workers_maximum
        for stage in stages
    )
    return workers * BLOCKS_OF_A_TASK * BLOCK_BYTES


def usable_bytes(nodes: Iterable[Node]) -> int:
    """Return what Ray Data uses of the nodes' object stores: half.

    Beyond it, a stage waits for the next one.
    """
    return int(sum(node.object_store_memory_bytes for node in nodes)) // 2


def usual_store_bytes(memory_bytes: int) -> int:
    """Return the object store that Ray creates on a node with this free memory.

    >>> usual_store_bytes(100 * 10**9)
    30000000000
    """
    return min(memory_bytes * 3 // 10, MOST_OF_A_NODE)
