"""A pipeline and its placement as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.presentation.ray import (
    STAGE_COLUMNS,
    group_text,
    headline,
    need_rows,
    placement_headline,
    stage_rows,
    worker_rows,
)
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.ray.pipelines import Pipeline
    from planner.ray.placement import Placement


def pipeline_text(pipeline: Pipeline) -> str:
    """Write headline, stages, needs, replica, bounds and cautions."""
    plan = pipeline.plan
    parts = [
        headline(pipeline),
        f"{plan.name} on {plan.gpu.name}, vLLM {plan.vllm_version}, Ray "
        f"{pipeline.ray_version}; one replica: {plan.outcome}",
        "",
        *table(STAGE_COLUMNS, stage_rows(pipeline)),
        "",
        *table(("Needed", "GPUs", "CPUs"), need_rows(pipeline)),
        "",
        group_text(pipeline),
        feeding_text(pipeline),
        store_text(pipeline),
    ]
    if pipeline.throughput is not None:
        parts += ["", f"A bound, not a forecast. {pipeline.throughput.why}"]
    if pipeline.cautions:
        parts += ["", *(caution_text(c.message, c.is_fatal) for c in pipeline.cautions)]
    return "\n".join(parts)


def feeding_text(pipeline: Pipeline) -> str:
    """Write how many rows an engine has at once."""
    limit = pipeline.max_pending_requests
    said = "no limit" if limit is None else f"at most {limit:,}"
    batches = min(pipeline.max_concurrent_batches, pipeline.max_tasks_in_flight)
    return (
        f"Rows in an engine at once: {batches} batches x {pipeline.batch_size}, "
        f"max_pending_requests {said}: {pipeline.rows_in_flight:,}."
    )


def store_text(pipeline: Pipeline) -> str:
    """Write what rows between stages take of the object stores."""
    return (
        f"Object store: rows between stages take up to "
        f"{format_gib(pipeline.object_store_bytes)} where every block is full; Ray "
        "Data uses half of the nodes' object stores, and stages wait beyond."
    )


def caution_text(message: str, is_fatal: bool) -> str:
    """Write a caution with its sign; never colour alone."""
    return f"{'✘' if is_fatal else '!'} {message}"


def placement_text(placement: Placement) -> str:
    """Write what becomes of the replicas, and of each worker why."""
    rows = [(name, state) for name, state, _ in worker_rows(placement)]
    lines = []
    for (name, state), (_, _, why) in zip(rows, worker_rows(placement), strict=True):
        lines.append(f"  {state:<9} {name}: {why}")
    return "\n".join([placement_headline(placement), *lines])


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Write rows under their columns, each as wide as its widest cell."""
    whole = [columns, *rows]
    widths = [max(len(row[n]) for row in whole) for n in range(len(columns))]
    return [
        "  ".join(
            f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in whole
    ]
