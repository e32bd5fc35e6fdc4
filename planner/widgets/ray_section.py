"""The plan on the screen as replicas of a Ray Data LLM pipeline, on nodes."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as w

from planner.errors import PlannerError
from planner.widgets.chart import PlotlyChart
from planner.widgets.controls import Controls, Group
from planner.widgets.fields import EntryField, Field, FieldError, read_all
from planner.widgets.later import Later
from planner.widgets.parsing import COUNT, FROM_NOTHING, Entry
from planner.widgets.section import Section

if TYPE_CHECKING:
    from planner.ray import Pipeline, Placement
    from planner.result import Plan

PAUSE_SECONDS = 0.4
"""A step of another control is answered first."""
MOST = {"replicas_max": 64, "nodes": 64, "gpus_per_node": 16}
"""A page may ask for no more: each worker is placed one by one."""
MOST_TASKS = 32
_SHARE = re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,4})?\Z", re.ASCII)
DEFAULTS = {"replicas_min": 1, "replicas_max": 2, "nodes": 1, "gpus_per_node": 8}


def _share(name: str, text: str) -> float:
    """Read GPUs, or the share of one.

    Raises:
        PlannerError: for what is no such number.
    """
    if not _SHARE.match(text):
        raise PlannerError(
            f"{name}: {text[:20]!r} is no number of GPUs, such as 1 or 0.5."
        )
    return float(text)


class RayField(EntryField):
    """A field of the pipeline: empty is Ray's own, not vLLM's choice."""

    @property
    def has_choice(self) -> bool:
        """Whether it can be left to vLLM: it is none of vLLM's."""
        return False


SHARE = Entry(kind="number", parse=_share)
VERSION = Entry(kind="text", parse=lambda _name, text: text)


def _fields() -> list[tuple[str, list[Field]]]:
    """Return the fields by heading; an empty one leaves it to Ray."""
    return [
        (
            "Replicas",
            [
                RayField("replicas_min", "engines from the start", COUNT),
                RayField("replicas_max", "engines at most", COUNT),
                RayField("batch_size", "rows of a batch", COUNT),
                RayField("max_concurrent_batches", "batches at once", COUNT),
                RayField("ray_version", "release of Ray", VERSION),
            ],
        ),
        (
            "Stages beside the engine",
            [
                RayField("preprocess_workers", "tasks at most", COUNT),
                RayField("preprocess_gpus", "GPUs of each, or a share", SHARE),
                RayField("postprocess_workers", "tasks at most", COUNT),
                RayField("postprocess_gpus", "GPUs of each, or a share", SHARE),
            ],
        ),
        (
            "Nodes",
            [
                RayField("nodes", "how many", FROM_NOTHING),
                RayField("gpus_per_node", "of each", COUNT),
            ],
        ),
    ]


class RaySection(Section):
    """Replicas, stages and nodes to set; what fits where, and what would wait."""

    def __init__(self) -> None:
        super().__init__("Ray Data LLM", "ray")
        self.controls: Controls | None = None
        self.chart: PlotlyChart | None = None
        self.tables = w.HTML()
        self.tables.add_class("pl-plan")
        self._plan: Plan | None = None
        self._later = Later(PAUSE_SECONDS)

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the controls and what they lead to, made when first opened."""
        if self.controls is None:
            self.controls = Controls([Group(title, own) for title, own in _fields()])
            self.controls.add_class("planner-ray-controls")
            for field in self.controls.fields.values():
                field.term = f"ray {field.name}"
                field.show_default(DEFAULTS.get(field.name))
                field.on_change(self._changed)
            self.chart = PlotlyChart(figure={})
            self.chart.add_class("planner-ray-nodes")
        drawn = () if self.chart is None or not self.chart.figure else (self.chart,)
        return (self.controls, *drawn, self.tables)

    def show(self, plan: Plan) -> None:
        """Take this plan as the replica, where the section is open."""
        self._plan = plan
        if self.is_open:
            self._later.run(self.refresh)

    def refresh(self) -> None:
        """Plan the pipeline and place it."""
        if self._plan is None or self.controls is None:
            return
        try:
            given = read_all(self.controls.fields)
            placement = place(self._plan, given)
        except FieldError:
            return  # the field says it
        except PlannerError as error:
            self.tables.value = f"<p class='pl-note'>{escape(str(error))}</p>"
            return
        self._show_choices(placement.pipeline)
        self._draw(placement)

    def _show_choices(self, pipeline: Pipeline) -> None:
        """Show what Ray takes where nothing is given."""
        if self.controls is None:
            return
        fields = self.controls.fields
        for name in ("batch_size", "max_concurrent_batches", "ray_version"):
            fields[name].show_default(getattr(pipeline, name))

    def _changed(self, _field: Field) -> None:
        self._later.run(self.refresh)

    def _draw(self, placement: Placement) -> None:
        from planner.charts.ray_nodes import figure_spec  # noqa: PLC0415 - rare
        from planner.presentation.comparison_html import (  # noqa: PLC0415 - rare
            comparison_style,
        )
        from planner.presentation.ray_html import (  # noqa: PLC0415 - rare
            pipeline_html,
            placement_html,
        )

        self.tables.value = (
            f"<style>{comparison_style()}</style>"
            f"{pipeline_html(placement.pipeline)}{placement_html(placement)}"
            f"{_program(placement.pipeline)}"
        )
        if self.chart is None:
            return
        was_empty = not self.chart.figure
        spec = figure_spec(placement)
        spec["layout"]["annotations"] = []  # the heading below says it
        with self.chart.hold_sync():
            self.chart.figure = spec
            self.chart.label = str(placement).split("\n", 1)[0]
        if was_empty and self.is_open:
            self.children = (self.toggle, *self.inside())


def _program(pipeline: Pipeline) -> str:
    """Return the program that runs the pipeline, folded; empty where there is none."""
    from planner.export import ray_data  # noqa: PLC0415 - rare

    try:
        text = ray_data(pipeline)
    except PlannerError:
        return ""
    return (
        "<details><summary>The program to take away</summary>"
        "<pre class='pl-plain-command' tabindex='0' aria-label='Program'><code>"
        f"{escape(text)}</code></pre></details>"
    )


def place(plan: Plan, given: dict[str, Any]) -> Placement:
    """Return the pipeline of what the fields say, on their nodes.

    Raises:
        PlannerError: for what cannot be, or is more than a page may ask for.
    """
    from planner.ray import Node  # noqa: PLC0415 - rare

    told = DEFAULTS | {
        name: value for name, value in given.items() if value is not None
    }
    for name, most in MOST.items():
        if told[name] > most:
            raise PlannerError(f"{name}={told[name]:,}: at most {most} on this page.")
    pipeline = _pipeline(plan, told)
    nodes = [
        Node(
            name=f"node-{number + 1}",
            cpus=max(96, 2 * pipeline.engine.worker.cpus),
            gpus=told["gpus_per_node"],
        )
        for number in range(told["nodes"])
    ]
    return pipeline.on(nodes)


def _pipeline(plan: Plan, told: dict[str, Any]) -> Pipeline:
    from planner.ray import NEWEST, pipeline  # noqa: PLC0415 - rare

    named = ("batch_size", "max_concurrent_batches")
    return pipeline(
        plan,
        concurrency=(told["replicas_min"], told["replicas_max"]),
        preprocess_map_kwargs=_map_kwargs(told, "preprocess"),
        postprocess_map_kwargs=_map_kwargs(told, "postprocess"),
        ray_version=told.get("ray_version", NEWEST),
        **{name: told[name] for name in named if name in told},
    )


def _map_kwargs(told: dict[str, Any], stage: str) -> dict[str, Any] | None:
    """Return a stage's settings; None: Ray's own."""
    workers, gpus = told.get(f"{stage}_workers"), told.get(f"{stage}_gpus")
    if workers is None and gpus is None:
        return None
    if (workers or 1) > MOST_TASKS:
        raise PlannerError(f"{stage}_workers={workers:,}: at most {MOST_TASKS}.")
    return {"concurrency": workers or 1, "num_gpus": gpus or 0}
