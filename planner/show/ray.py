"""A Ray Data LLM pipeline and its placement as table rows, frames, text and HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.frames import columns, make_frame
from planner.show.html import Content, Html, fragment, tag
from planner.show.page import wide_page, wide_style
from planner.show.pieces import NOTHING, folded_html, listed, table_html, verdict_box
from planner.show.terminal import legible
from planner.units import format_gib

if TYPE_CHECKING:
    import pandas as pd

    from planner.ray.pipelines import Pipeline
    from planner.ray.placement import Placement
    from planner.ray.stages import Stage

STAGE_COLUMNS = ("Stage", "Workers", "Each takes", "GPUs", "CPUs")
WORKER_COLUMNS = ("Worker", "State", "Why")
_STAGE_KINDS = ("", "pl-word", "pl-word", "", "")
_WORKER_KINDS = ("", "pl-word", "pl-text")
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


@legible
def pipeline_text(pipeline: Pipeline) -> str:
    """Write the headline, stages, needs, replica, bounds and cautions."""
    plan = pipeline.plan
    parts = [
        headline(pipeline),
        f"{plan.name} on {plan.gpu.name}, vLLM {plan.vllm_version}, Ray "
        f"{pipeline.ray_version}; one replica: {plan.outcome}",
        "",
        *columns([STAGE_COLUMNS, *stage_rows(pipeline)], "<"),
        "",
        *columns([("Needed", "GPUs", "CPUs"), *need_rows(pipeline)], "<"),
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


def caution_text(message: str, is_fatal: bool) -> str:
    """Write a caution with its sign; never by colour alone."""
    return f"{'✘' if is_fatal else '!'} {message}"


@legible
def placement_text(placement: Placement) -> str:
    """Write the state of the replicas, and of each worker with the reason."""
    lines = [
        f"  {state:<9} {name}: {why}" for name, state, why in worker_rows(placement)
    ]
    return "\n".join([placement_headline(placement), *lines])


def pipeline_page(pipeline: Pipeline) -> Html:
    """Show a pipeline in one self-contained piece; needs no script."""
    return wide_page(pipeline_html(pipeline))


def placement_page(placement: Placement) -> Html:
    """Show a placement in one self-contained piece; needs no script."""
    return wide_page(placement_html(placement))


def section_html(placement: Placement) -> Html:
    """Show pipeline and placement on a page that has every style sheet but this one."""
    return fragment(
        tag("style", wide_style()),
        pipeline_html(placement.pipeline),
        placement_html(placement),
    )


def pipeline_html(pipeline: Pipeline) -> Html:
    """Show the headline, cautions, stages, needs and bounds; needs no script."""
    plan = pipeline.plan
    subject = (
        f"{plan.name} on {plan.gpu.name}, Ray {pipeline.ray_version}, "
        f"vLLM {plan.vllm_version}; one replica {plan.outcome}"
    )
    is_fatal = any(caution.is_fatal for caution in pipeline.cautions)
    bound = pipeline.throughput
    sentences = [group_text(pipeline), feeding_text(pipeline), store_text(pipeline)]
    if bound is not None:
        sentences.append(f"A bound, not a forecast. {bound.why}")
    return _spaced(
        _verdict(subject, headline(pipeline), is_good=not is_fatal),
        _cautions(pipeline),
        table_html(
            "What the cluster needs",
            ["Needed", "GPUs", "CPUs"],
            need_rows(pipeline),
        ),
        table_html(
            "Stages, in the order in which rows pass them",
            zip(STAGE_COLUMNS, _STAGE_KINDS, strict=True),
            stage_rows(pipeline),
        ),
        listed(sentences),
    )


def placement_html(placement: Placement) -> Html:
    """Show the workers without a place, then all workers; each with the reason."""
    rows = worker_rows(placement)
    names = ", ".join(node.name for node in placement.nodes)
    return _spaced(
        _verdict(
            f"On {names}", placement_headline(placement), is_good=placement.can_start
        ),
        _workers(
            "Without a place", [one for one in rows if SYMBOLS["placed"] not in one[1]]
        ),
        _workers("Workers, in the order in which they start", rows),
    )


def _workers(caption: str, rows: list[tuple[str, str, str]]) -> Html:
    if not rows:
        return NOTHING
    return folded_html(caption, zip(WORKER_COLUMNS, _WORKER_KINDS, strict=True), rows)


def _spaced(*content: Content) -> Html:
    return tag("div", content, class_="pl-spaced")


def _verdict(subject: str, text: str, *, is_good: bool) -> Html:
    tone, symbol = ("fits", "✔") if is_good else ("short", "✘")
    return verdict_box(tone, subject=subject, symbol=symbol, headline=text)


def _cautions(pipeline: Pipeline) -> Html:
    return listed(
        f"{'✘ ' if caution.is_fatal else ''}{caution.message}"
        for caution in pipeline.cautions
    )
