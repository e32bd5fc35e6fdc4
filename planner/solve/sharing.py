"""Several vLLM on one GPU, started one after the other.

`gpu_memory_utilization` is a share of the whole GPU, for each of them. vLLM does not
make room for others: it looks whether its share is free, so the order of the starts
decides. What a start holds beside its share (CUDA's context, graphs that are not
charged, workspaces) is missing for the next one.

Source: vLLM 0.33.0 `v1/worker/utils.py` request_memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from planner.gpu import GPU
from planner.inputs import Inputs
from planner.load import Load
from planner.memory.outside import CUDA_CONTEXT
from planner.result import Plan, RankMemory
from planner.serving import Serving, serve

_NOT_HELD = "not planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One start among others on the same GPU."""

    serving: Serving
    """As vLLM finds the GPU when it starts."""
    free_bytes: int
    """When it starts, its own context not yet taken."""
    held_bytes: int
    """Once it serves, at the high end of what lies beside its share."""

    @property
    def is_served(self) -> bool:
        """Whether it starts and serves, and all it holds finds room."""
        return self.serving.is_served and self.held_bytes <= self.free_bytes


def in_order(starts: Iterable[Inputs], load: Load | None) -> tuple[Instance, ...]:
    """Start one after the other on their GPU; one that does not start holds nothing."""
    found: list[Instance] = []
    for inputs in starts:
        before = found[-1] if found else None
        free: int | None = None
        if before is not None:
            held = before.held_bytes if before.is_served else 0
            free = before.free_bytes - held
        found.append(after(inputs, load, free))
    return tuple(found)


def nth(inputs: Inputs, load: Load | None, number: int) -> Instance:
    """Return the start after so many of the same, less one."""
    first = after(inputs, load, None)
    if number == 1:
        return first
    return after(inputs, load, first.free_bytes - (number - 1) * first.held_bytes)


def after(inputs: Inputs, load: Load | None, free_bytes: int | None) -> Instance:
    """Start on a GPU of which others have left so much; None: as the GPU says."""
    alone = serve(inputs, load)
    gpu = alone.plan.gpu
    held = held_bytes(alone.plan)
    if free_bytes is None:
        free = gpu.free_memory_bytes
        seen = gpu.total_memory_bytes if free is None else free
        return Instance(serving=alone, free_bytes=seen, held_bytes=held)
    # vLLM looks once its own context is there.
    seen = max(0, free_bytes - _context_bytes(alone.plan))
    here: GPU = replace(gpu, free_memory_bytes=seen)
    return Instance(
        serving=serve(inputs.changed(gpu=here), load),
        free_bytes=free_bytes,
        held_bytes=held,
    )


def held_bytes(plan: Plan) -> int:
    """Return what a running start holds of each GPU: its share and what lies beside."""
    return max((_held(rank) for rank in plan.ranks), default=0)


def _held(rank: RankMemory) -> int:
    beside = sum(line.high_bytes for line in rank.outside)
    rest = [line.size_bytes for line in rank.lines if line.name == _NOT_HELD]
    return rank.requested_memory_bytes - sum(rest) + beside


def _context_bytes(plan: Plan) -> int:
    return max(
        (
            line.high_bytes
            for rank in plan.ranks
            for line in rank.outside
            if line.name == CUDA_CONTEXT
        ),
        default=0,
    )
