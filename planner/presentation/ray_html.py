"""A pipeline and its placement as self-contained pieces of HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from planner.presentation.comparison_html import page, table_html
from planner.presentation.ray import (
    STAGE_COLUMNS,
    WORKER_COLUMNS,
    group_text,
    headline,
    need_rows,
    placement_headline,
    stage_rows,
    worker_rows,
)
from planner.presentation.ray_text import (
    feeding_text,
    pipeline_text,
    placement_text,
    store_text,
)

if TYPE_CHECKING:
    from planner.ray.pipelines import Pipeline
    from planner.ray.placement import Placement


def mimebundle(pipeline: Pipeline) -> dict[str, str]:
    """Return the pipeline as text and as HTML."""
    return {
        "text/plain": pipeline_text(pipeline),
        "text/html": page(pipeline_html(pipeline)),
    }


def placement_mimebundle(placement: Placement) -> dict[str, str]:
    """Return the placement as text and as HTML."""
    return {
        "text/plain": placement_text(placement),
        "text/html": page(placement_html(placement)),
    }


def pipeline_html(pipeline: Pipeline) -> str:
    """Show headline, cautions, stages, needs and bounds; needs no script."""
    plan = pipeline.plan
    subject = (
        f"{plan.name} on {plan.gpu.name}, Ray {pipeline.ray_version}, "
        f"vLLM {plan.vllm_version}; one replica {plan.outcome}"
    )
    is_fatal = any(caution.is_fatal for caution in pipeline.cautions)
    stages = [_cells(row) for row in stage_rows(pipeline)]
    bound = pipeline.throughput
    sentences = [group_text(pipeline), feeding_text(pipeline), store_text(pipeline)]
    if bound is not None:
        sentences.append(f"A bound, not a forecast. {bound.why}")
    return _spaced(
        _verdict(subject, headline(pipeline), is_good=not is_fatal)
        + _cautions(pipeline)
        + table_html("Stages, as rows pass them", list(STAGE_COLUMNS), stages)
        + table_html(
            "What the cluster must have",
            ["Needed", "GPUs", "CPUs"],
            [list(row) for row in need_rows(pipeline)],
        )
        + "".join(f"<p class='pl-sentence'>{escape(text)}</p>" for text in sentences)
    )


def placement_html(placement: Placement) -> str:
    """Show what becomes of each worker, and why."""
    rows = [
        [name, escape(state), f"<div class='pl-sentences'>{escape(why)}</div>"]
        for name, state, why in worker_rows(placement)
    ]
    names = ", ".join(node.name for node in placement.nodes)
    return _spaced(
        _verdict(
            f"On {names}", placement_headline(placement), is_good=placement.can_start
        )
        + table_html("Workers, in the order of their start", list(WORKER_COLUMNS), rows)
    )


def _spaced(inner: str) -> str:
    return f"<div class='pl-spaced'>{inner}</div>"


def _verdict(subject: str, text: str, *, is_good: bool) -> str:
    tone, symbol = ("fits", "✔") if is_good else ("short", "✘")
    return (
        f"<div class='pl-verdict pl-{tone}'>"
        f"<p class='pl-subject'>{escape(subject)}</p>"
        f"<p class='pl-headline'><span class='pl-symbol' aria-hidden='true'>{symbol}"
        f"</span> {escape(text)}</p></div>"
    )


def _cells(row: tuple[str, ...]) -> list[str]:
    """Return a row whose first cell is its heading, which the table writes itself."""
    return [row[0], *(escape(cell) for cell in row[1:])]


def _cautions(pipeline: Pipeline) -> str:
    items = "".join(
        f"<li>{'✘ ' if caution.is_fatal else ''}{escape(caution.message)}</li>"
        for caution in pipeline.cautions
    )
    return f"<ul class='pl-notes'>{items}</ul>" if items else ""
