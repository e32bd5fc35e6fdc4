"""A pipeline and its placement as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.ray.placement import State

if TYPE_CHECKING:
    from planner.ray.nodes import Node
    from planner.ray.pipelines import Pipeline
    from planner.ray.placement import Placement, WorkerPlacement


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
    return {
        "state": str(placement.state),
        "can_start": placement.can_start,
        "replicas": {str(state): placement.count(state) for state in State},
        "workers": [_worker(worker) for worker in placement.workers],
        "object_store_usable_bytes": placement.object_store_usable_bytes,
        "nodes": [_node(node) for node in placement.nodes],
    }


def _worker(worker: WorkerPlacement) -> dict[str, Any]:
    return asdict(worker) | {
        "state": str(worker.state),
        "group": worker.group.to_dict(),
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "total": node.total.to_dict(),
        "free": node.available.to_dict(),
    }
