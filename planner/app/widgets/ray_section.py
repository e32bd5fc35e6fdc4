"""The current plan as replicas of a Ray Data LLM pipeline, on nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import ipywidgets as w

from planner import ray
from planner.app.widgets.chart import PlotlyChart
from planner.app.widgets.controls import Controls, FieldGroup
from planner.app.widgets.fields import Field, FieldError, OwnEntry, read_all
from planner.app.widgets.parsing import COUNT, FROM_NOTHING, Notation
from planner.app.widgets.section import Fold, tables_view
from planner.errors import PlannerError
from planner.export import ray_data
from planner.show.html import Html, fragment, tag
from planner.show.pieces import NOTHING, command_line, to_open
from planner.show.sheet import pinned

if TYPE_CHECKING:
    from planner.planning.result import Plan
    from planner.ray import Node, Pipeline, Placement

PAUSE_SECONDS = 0.4
"""Other controls are answered first."""
MOST = {"replicas_max": 64, "nodes": 64, "gpus_per_node": 16}
"""Limits of the page, since each worker is placed one by one."""
MOST_TASKS = 32
_SHARE = re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,4})?\Z", re.ASCII)
DEFAULTS = {"replicas_min": 1, "replicas_max": 2, "nodes": 1, "gpus_per_node": 8}


def _share(name: str, text: str) -> float:
    """Read a number of GPUs, or a fraction of one.

    Raises:
        PlannerError: for anything else.
    """
    if not _SHARE.match(text):
        raise PlannerError(
            f"{name}: {text[:20]!r} is not a number of GPUs, such as 1 or 0.5."
        )
    return float(text)


SHARE = Notation(kind="number", parse=_share)
VERSION = Notation(kind="text", parse=lambda _name, text: text)


def _fields() -> list[tuple[str, list[Field]]]:
    """Return the fields by heading; an empty field leaves the choice to Ray."""
    return [
        (
            "Replicas",
            [
                OwnEntry("replicas_min", "engines from the start", COUNT),
                OwnEntry("replicas_max", "engines at most", COUNT),
                OwnEntry("batch_size", "rows of a batch", COUNT),
                OwnEntry("max_concurrent_batches", "batches at once", COUNT),
                OwnEntry("ray_version", "release of Ray", VERSION),
            ],
        ),
        (
            "Other stages",
            [
                OwnEntry("preprocess_workers", "tasks at most", COUNT),
                OwnEntry("preprocess_gpus", "GPUs of each, or a share", SHARE),
                OwnEntry("postprocess_workers", "tasks at most", COUNT),
                OwnEntry("postprocess_gpus", "GPUs of each, or a share", SHARE),
            ],
        ),
        (
            "Nodes",
            [
                OwnEntry("nodes", "how many", FROM_NOTHING),
                OwnEntry("gpus_per_node", "of each", COUNT),
            ],
        ),
    ]


class RaySection(Fold):
    """Fields for replicas, stages and nodes, and where each worker is placed."""

    def __init__(self) -> None:
        super().__init__("More: Ray Data LLM", "ray", PAUSE_SECONDS)
        self.controls: Controls | None = None
        self.chart: PlotlyChart | None = None
        self.tables = tables_view()

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the controls and the results, created when first opened."""
        if self.controls is None:
            self.controls = Controls(
                [FieldGroup(title, own) for title, own in _fields()]
            )
            self.controls.add_class("planner-ray-controls")
            for field in self.controls.fields.values():
                field.term = f"ray {field.name}"
                field.show_default(DEFAULTS.get(field.name))
                field.on_change(lambda _field: self._later.run(self.refresh))
            self.chart = PlotlyChart(figure={})
            self.chart.add_class("planner-ray-nodes")
        drawn = () if self.chart is None or not self.chart.figure else (self.chart,)
        return (self.controls, *drawn, self.tables)

    def refresh(self) -> None:
        """Plan the pipeline and place it."""
        if self._plan is None or self.controls is None:
            return
        try:
            given = read_all(self.controls.fields)
            placement = place(self._plan, given)
        except FieldError:
            return  # the field shows it
        except PlannerError as error:
            self.tables.value = tag("p", str(error), class_="pl-note")
            return
        self._show_choices(placement.pipeline)
        self._draw(placement)

    def _show_choices(self, pipeline: Pipeline) -> None:
        """Show what Ray chooses where nothing is set."""
        if self.controls is None:
            return
        fields = self.controls.fields
        for name in ("batch_size", "max_concurrent_batches", "ray_version"):
            fields[name].show_default(getattr(pipeline, name))

    def _draw(self, placement: Placement) -> None:
        from planner.show import ray as shown  # noqa: PLC0415 - once it is open
        from planner.show.charts.ray_nodes import figure_spec  # noqa: PLC0415 - once it is open

        pipeline = shown.pipeline_sheet(placement.pipeline)
        tables = pinned(pipeline, shown.placement_sheet(placement))
        self.tables.value = fragment(tables, _program(placement.pipeline))
        if self.chart is None:
            return
        was_empty = not self.chart.figure
        spec = figure_spec(placement)
        spec["layout"]["annotations"] = []  # the heading below says it
        self.chart.draw(spec, shown.placement_headline(placement))
        if was_empty:
            self.redraw()


def _program(pipeline: Pipeline) -> Html:
    """Return the program that runs the pipeline, folded; empty without one."""
    try:
        text = ray_data(pipeline)
    except PlannerError:
        return NOTHING
    return to_open("The program to run it", command_line(text, "Program"))


def place(plan: Plan, given: dict[str, Any]) -> Placement:
    """Return the pipeline of the fields' values, placed on their nodes.

    Raises:
        PlannerError: for invalid values, or more than the page's limits.
    """
    settings = DEFAULTS | {
        name: value for name, value in given.items() if value is not None
    }
    for name, most in MOST.items():
        if settings[name] > most:
            raise PlannerError(
                f"{name}={settings[name]:,}: at most {most} on this page."
            )
    pipeline = _pipeline(plan, settings)
    nodes: list[Node] = [
        ray.Node(
            name=f"node-{number + 1}",
            cpus=max(96, 2 * pipeline.engine.worker.cpus),
            gpus=settings["gpus_per_node"],
        )
        for number in range(settings["nodes"])
    ]
    return pipeline.on(nodes)


def _pipeline(plan: Plan, settings: dict[str, Any]) -> Pipeline:
    named = ("batch_size", "max_concurrent_batches", "ray_version")
    return ray.pipeline(
        plan,
        concurrency=(settings["replicas_min"], settings["replicas_max"]),
        preprocess_map_kwargs=_map_kwargs(settings, "preprocess"),
        postprocess_map_kwargs=_map_kwargs(settings, "postprocess"),
        **{name: settings[name] for name in named if name in settings},
    )


def _map_kwargs(settings: dict[str, Any], stage: str) -> dict[str, Any] | None:
    """Return a stage's settings; None: Ray's defaults."""
    workers, gpus = settings.get(f"{stage}_workers"), settings.get(f"{stage}_gpus")
    if workers is None and gpus is None:
        return None
    if (workers or 1) > MOST_TASKS:
        raise PlannerError(f"{stage}_workers={workers:,}: at most {MOST_TASKS}.")
    return {"concurrency": workers or 1, "num_gpus": gpus or 0}
