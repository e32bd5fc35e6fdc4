"""A Ray Data LLM pipeline and its placement: totals, stages, workers, cautions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.frames import frame_of, make_frame
from planner.show.sheet import Answer, Apart, Group, Listing, Sheet, Table
from planner.units import format_gib

if TYPE_CHECKING:
    import pandas as pd

    from planner.ray.pipelines import Pipeline
    from planner.ray.placement import Placement
    from planner.ray.stages import Stage

_STAGE_COLUMNS = (
    "Stage",
    ("Workers", "pl-word"),
    ("Each takes", "pl-word"),
    "GPUs",
    "CPUs",
)
_WORKER_COLUMNS = ("Worker", ("State", "pl-word"), ("Why", "pl-text"))
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
    """Write a range, or one number where both ends are equal."""
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def need_rows(pipeline: Pipeline) -> list[tuple[str, str, str]]:
    """Return the GPUs and CPUs needed to start, at least, and at most."""
    return [
        (
            "to start",
            f"{pipeline.gpus_to_start:g}",
            f"{pipeline.cpus_to_start:g}",
        ),
        ("fewest workers", f"{pipeline.gpus_minimum:g}", f"{pipeline.cpus_minimum:g}"),
        ("most workers", f"{pipeline.gpus_maximum:g}", f"{pipeline.cpus_maximum:g}"),
    ]


def worker_rows(placement: Placement) -> list[tuple[str, str, str]]:
    """Return one row per worker, in the order in which they start."""
    return [
        (
            f"{worker.stage} {worker.worker}",
            f"{SYMBOLS[worker.state]} {worker.state}",
            worker.why,
        )
        for worker in placement.workers
    ]


def headline(pipeline: Pipeline) -> str:
    """Write the answer in one line."""
    return (
        f"{pipeline.gpus_total:g} GPUs at most: "
        f"{span(pipeline.replicas_minimum, pipeline.replicas_maximum)} replicas of "
        f"{pipeline.gpus_per_replica:g}"
        f"{beside_text(pipeline)}; {pipeline.gpus_to_start:g} to start"
    )


def beside_text(pipeline: Pipeline) -> str:
    """Write the GPUs of the other stages; empty where they need none."""
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
    """Write how many replicas these nodes take, and whether the job can run."""
    parts = [
        f"{placement.count('placed')} of {len(placement.replicas)} replicas placed"
    ]
    parts += [
        f"{placement.count(state)} {text}"
        for state, text in (("waits", "waiting"), ("never", "never placed"))
        if placement.count(state)
    ]
    start = "the job can run" if placement.can_start else "the job cannot run"
    return f"{', '.join(parts)}; {start}"


def stages_frame(pipeline: Pipeline) -> pd.DataFrame:
    """Return the stages as a pandas frame."""
    rows = [stage.to_dict() for stage in pipeline.stages]
    return frame_of(rows, [name for name in rows[0] if name != "worker"])


def workers_frame(placement: Placement) -> pd.DataFrame:
    """Return the workers as a pandas frame."""
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


def feeding_text(pipeline: Pipeline) -> str:
    """Write how many rows an engine processes at once."""
    limit = pipeline.max_pending_requests
    pending = "no limit" if limit is None else f"at most {limit:,}"
    batches = min(pipeline.max_concurrent_batches, pipeline.max_tasks_in_flight)
    return (
        f"Rows in an engine at once: {batches} batches x {pipeline.batch_size}, "
        f"max_pending_requests {pending}: {pipeline.rows_in_flight:,}."
    )


def store_text(pipeline: Pipeline) -> str:
    """Write how much of the object stores the rows between stages take."""
    return (
        f"Object store: rows between stages take up to "
        f"{format_gib(pipeline.object_store_bytes)} where every block is full; Ray "
        "Data uses half of the nodes' object stores, and stages wait beyond."
    )


def pipeline_sheet(pipeline: Pipeline) -> Sheet:
    """Say the headline, cautions, needs, stages, replica and bounds."""
    plan, bound = pipeline.plan, pipeline.throughput
    subject = (
        f"{plan.name} on {plan.gpu.name}, Ray {pipeline.ray_version}, "
        f"vLLM {plan.vllm_version}; one replica {plan.outcome}"
    )
    sentences = [group_text(pipeline), feeding_text(pipeline), store_text(pipeline)]
    if bound is not None:
        sentences.append(f"A bound, not a forecast. {bound.why}")
    cautions = pipeline.cautions
    return _spaced(
        _answer(
            subject, headline(pipeline), is_good=not any(c.is_fatal for c in cautions)
        ),
        Listing(
            [
                f"✘ {one.message}"
                if one.is_fatal
                else Apart(f"! {one.message}", one.message)
                for one in cautions
            ]
        ),
        Table(
            "What the cluster needs", ("Needed", "GPUs", "CPUs"), need_rows(pipeline)
        ),
        Table(
            "Stages, in the order in which rows pass them",
            _STAGE_COLUMNS,
            stage_rows(pipeline),
        ),
        Listing(sentences),
    )


def placement_sheet(placement: Placement) -> Sheet:
    """Say which workers have no place, then all workers; each with the reason."""
    rows = worker_rows(placement)
    waiting = [one for one in rows if SYMBOLS["placed"] not in one[1]]
    in_order = "Workers, in the order in which they start"
    return _spaced(
        _answer(
            f"On {', '.join(node.name for node in placement.nodes)}",
            placement_headline(placement),
            is_good=placement.can_start,
        ),
        Table("Without a place", _WORKER_COLUMNS, waiting, most=5),
        Table(in_order, _WORKER_COLUMNS, rows, most=5),
    )


def _spaced(*parts: Answer | Listing | Table) -> Sheet:
    return Sheet((Group(parts, look="pl-spaced"),))


def _answer(subject: str, text: str, *, is_good: bool) -> Answer:
    tone, symbol = ("fits", "✔") if is_good else ("short", "✘")
    return Answer(tone=tone, symbol=symbol, headline=text, subject=subject)
