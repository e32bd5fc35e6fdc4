"""A Ray Data LLM pipeline in rows: stages, what it needs, and where its workers go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.presentation.frames import make_frame

if TYPE_CHECKING:
    import pandas as pd

    from planner.ray.pipelines import Pipeline
    from planner.ray.placement import Placement
    from planner.ray.stages import Stage

STAGE_COLUMNS = ("Stage", "Workers", "Each takes", "GPUs", "CPUs")
WORKER_COLUMNS = ("Worker", "State", "Why")
SYMBOLS = {"placed": "✔", "waits": "…", "never": "✘"}


def stage_rows(pipeline: Pipeline) -> list[tuple[str, ...]]:
    """Return one row per stage, in the order of the rows of data."""
    return [
        (
            stage.name,
            workers_text(stage),
            str(stage.worker.total) or "nothing",
            span(stage.gpus_minimum, stage.gpus_maximum),
            span(stage.cpus_minimum, stage.cpus_maximum),
        )
        for stage in pipeline.stages
    ]


def workers_text(stage: Stage) -> str:
    """Write how many workers a stage has, and of what kind."""
    kind = "actors" if stage.is_actors else "tasks"
    if stage.workers_maximum is None:
        return f"{kind}, as many as fit"
    kind = kind[:-1] if stage.workers_maximum == 1 else kind
    return f"{span(stage.workers_minimum, stage.workers_maximum)} {kind}"


def span(least: float, most: float) -> str:
    """Write a range, or the one number it is."""
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def need_rows(pipeline: Pipeline) -> list[tuple[str, str, str]]:
    """Return GPUs and CPUs: to start at all, at the least, at the most."""
    return [
        (
            "to start at all",
            f"{pipeline.gpus_to_start:g}",
            f"{pipeline.cpus_to_start:g}",
        ),
        ("fewest workers", f"{pipeline.gpus_minimum:g}", f"{pipeline.cpus_minimum:g}"),
        ("most workers", f"{pipeline.gpus_maximum:g}", f"{pipeline.cpus_maximum:g}"),
    ]


def worker_rows(placement: Placement) -> list[tuple[str, str, str]]:
    """Return one row per worker, in the order of their start."""
    return [
        (
            f"{worker.stage} {worker.worker}",
            f"{SYMBOLS[worker.state]} {worker.state}",
            worker.why,
        )
        for worker in placement.workers
    ]


def headline(pipeline: Pipeline) -> str:
    """Write the answer in a line."""
    return (
        f"{pipeline.gpus_total:g} GPUs at most: "
        f"{span(pipeline.replicas_minimum, pipeline.replicas_maximum)} replicas of "
        f"{pipeline.gpus_per_replica:g}"
        f"{beside_text(pipeline)}; {pipeline.gpus_to_start:g} to start"
    )


def beside_text(pipeline: Pipeline) -> str:
    """Write the GPUs of the stages beside the engine; empty where they take none."""
    parts = [
        f"{stage.gpus_maximum:g} for {stage.name}"
        for stage in pipeline.stages
        if not stage.is_engine and stage.gpus_maximum
    ]
    return f" and {', '.join(parts)}" if parts else ""


def group_text(pipeline: Pipeline) -> str:
    """Write what one replica reserves."""
    group = pipeline.engine.worker
    if group.is_single_request:
        return f"One actor on one node: {group.total}."
    first, count = group.bundles[0], len(group.bundles)
    same = all(bundle == first for bundle in group.bundles)
    bundles = f"{count} x ({first})" if same else "; ".join(map(str, group.bundles))
    return f"A placement group: {bundles}, {group.strategy}."


def placement_headline(placement: Placement) -> str:
    """Write what becomes of the replicas on these nodes."""
    counts = ", ".join(
        f"{placement.count(state)} {text}"
        for state, text in (
            ("placed", "placed"),
            ("waits", "wait"),
            ("never", "never placed"),
        )
        if placement.count(state)
    )
    start = "rows flow" if placement.can_start else "no row comes out"
    return f"Of {len(placement.replicas)} replicas: {counts}; {start}"


def stages_frame(pipeline: Pipeline) -> pd.DataFrame:
    """Return the stages as a pandas frame.

    Raises:
        PlannerError: when pandas is not installed.
    """
    rows = [stage.to_dict() for stage in pipeline.stages]
    columns = [name for name in rows[0] if name != "worker"]
    return make_frame([[row[name] for name in columns] for row in rows], columns)


def workers_frame(placement: Placement) -> pd.DataFrame:
    """Return the workers as a pandas frame.

    Raises:
        PlannerError: when pandas is not installed.
    """
    columns = ("stage", "worker", "state", "is_minimum", "nodes", "gpus", "why")
    rows = [
        (
            worker.stage,
            worker.worker,
            str(worker.state),
            worker.is_minimum,
            ", ".join(dict.fromkeys(place.node for place in worker.places)),
            worker.group.gpus,
            worker.why,
        )
        for worker in placement.workers
    ]
    return make_frame(rows, columns)
