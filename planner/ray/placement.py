"""Placement: where each worker of a pipeline runs, or why not; both as plain values."""

from __future__ import annotations

from dataclasses import asdict, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from planner.ray.bundles import Node, PlacementGroup
from planner.ray.stages import usable_bytes
from planner.values import frozen
from planner.views import Charted, Framed

if TYPE_CHECKING:
    from planner.ray.pipelines import Pipeline


class State(StrEnum):
    """The state of a worker's request."""

    PLACED = "placed"
    WAITS = "waits"  # fits on these nodes, but other workers use them
    NEVER = "never"  # does not fit on these nodes, even when they are empty


@frozen
class BundlePlace:
    """Where one bundle is reserved."""

    bundle: int
    """Its index in the group."""
    node: str
    gpus: tuple[tuple[int, float], ...] = ()
    """Each GPU's index on the node, and the fraction of it."""


@frozen
class WorkerPlacement:
    """One worker of a stage: an engine replica, an actor or a running task."""

    stage: str
    """The name of its stage."""
    worker: int
    """Its index in the stage."""
    group: PlacementGroup
    """What it requests."""
    state: State
    why: str
    """A sentence: what it requests, and the reason for its state."""
    is_minimum: bool
    """Whether it is one of the workers that the stage starts with."""
    places: tuple[BundlePlace, ...] = ()
    """One per bundle; empty unless the worker is placed."""
    takes_turns: bool = False
    """Whether it waits only for a task of another stage, which releases its
    resources."""


@frozen(repr=False)
class Placement(Framed, Charted):
    """A pipeline on nodes."""

    pipeline: Pipeline
    nodes: tuple[Node, ...]
    workers: tuple[WorkerPlacement, ...]
    """In the order in which Ray starts them."""

    @property
    def replicas(self) -> tuple[WorkerPlacement, ...]:
        """The workers of the engine stage."""
        engine = self.pipeline.engine.name
        return tuple(worker for worker in self.workers if worker.stage == engine)

    def count(self, state: State | str) -> int:
        """Return how many replicas are in a state."""
        return sum(replica.state == state for replica in self.replicas)

    @property
    def object_store_usable_bytes(self) -> int:
        """What Ray Data uses of the nodes' object stores; 0 where they are unknown."""
        return usable_bytes(self.nodes)

    @property
    def can_start(self) -> bool:
        """Whether each stage has a worker that is placed, or that takes turns."""
        placed = {
            worker.stage
            for worker in self.workers
            if worker.state is State.PLACED or worker.takes_turns
        }
        return placed >= {stage.name for stage in self.pipeline.stages}

    @property
    def state(self) -> State:
        """NEVER if some worker never fits, else WAITS if some worker waits."""
        states = {worker.state for worker in self.workers}
        for state in (State.NEVER, State.WAITS):
            if state in states:
                return state
        return State.PLACED

    def to_dict(self) -> dict[str, Any]:
        """Return the placement as plain values."""
        return placement_dict(self)

    def __repr__(self) -> str:
        """Return the placement in one line."""
        counts = ", ".join(f"{self.count(state)} {state}" for state in State)
        return f"Placement({counts}; can_start={self.can_start})"


def pipeline_dict(pipeline: Pipeline) -> dict[str, Any]:
    """Return a pipeline as plain values; the plan in the contract's shape."""
    load = pipeline.load
    return {
        "model": pipeline.plan.name,
        "ray_version": pipeline.ray_version,
        "backend": pipeline.backend,
        "accelerator_type": pipeline.accelerator_type,
        "replicas_minimum": pipeline.replicas_minimum,
        "replicas_maximum": pipeline.replicas_maximum,
        "gpus_per_replica": pipeline.gpus_per_replica,
        "gpus_to_start": pipeline.gpus_to_start,
        "gpus_minimum": pipeline.gpus_minimum,
        "gpus_maximum": pipeline.gpus_maximum,
        "gpus_total": pipeline.gpus_total,
        "cpus_per_replica": pipeline.cpus_per_replica,
        "cpus_to_start": pipeline.cpus_to_start,
        "cpus_minimum": pipeline.cpus_minimum,
        "cpus_maximum": pipeline.cpus_maximum,
        "object_store_bytes": pipeline.object_store_bytes,
        "batch_size": pipeline.batch_size,
        "max_concurrent_batches": pipeline.max_concurrent_batches,
        "max_tasks_in_flight": pipeline.max_tasks_in_flight,
        "max_pending_requests": pipeline.max_pending_requests,
        "rows_in_flight": pipeline.rows_in_flight,
        "placement_group": pipeline.engine.worker.to_dict(),
        "stages": [stage.to_dict() for stage in pipeline.stages],
        "num_rows": pipeline.num_rows,
        "load": None if load is None else asdict(load),
        "throughput": None
        if pipeline.throughput is None
        else pipeline.throughput.to_dict(),
        "cautions": [asdict(caution) for caution in pipeline.cautions],
        "plan": pipeline.plan.to_dict(),
    }


def placement_dict(placement: Placement) -> dict[str, Any]:
    """Return a placement as plain values."""
    groups = {s.name: s.worker.to_dict() for s in placement.pipeline.stages}
    return {
        "state": str(placement.state),
        "can_start": placement.can_start,
        "replicas": {str(state): placement.count(state) for state in State},
        "workers": [
            _worker(worker, groups[worker.stage]) for worker in placement.workers
        ],
        "object_store_usable_bytes": placement.object_store_usable_bytes,
        "nodes": [_node(node) for node in placement.nodes],
    }


def _worker(worker: WorkerPlacement, group: dict[str, Any]) -> dict[str, Any]:
    """Return a worker as plain values, far faster than `asdict`."""
    plain = {one.name: getattr(worker, one.name) for one in fields(WorkerPlacement)}
    places = [
        {"bundle": one.bundle, "node": one.node, "gpus": one.gpus}
        for one in worker.places
    ]
    own = {"state": str(worker.state), "group": group, "places": tuple(places)}
    return plain | own


def _node(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "total": node.total.to_dict(),
        "free": node.available.to_dict(),
    }
