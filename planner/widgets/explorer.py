"""The explorer: controls on one side, vLLM's answer on the other."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import traitlets

import planner
from planner import catalogue
from planner.charts.memory_bars import figure_spec
from planner.presentation import tables
from planner.presentation.certainty import certainty_html
from planner.presentation.page import style
from planner.presentation.text import spoken
from planner.widgets.chart import PlotlyChart
from planner.widgets.form import FieldError, Form
from planner.widgets.guard import guarded
from planner.widgets.reader import Reader
from planner.widgets.run_section import RunSection, is_allowed
from planner.widgets.snapshot import snapshot_html

if TYPE_CHECKING:
    from planner.gpu import GPU
    from planner.model import ModelArchitecture
    from planner.result import Plan

DEFAULT_MODEL = "meta-llama/Llama-3.1-8B-Instruct"
DEFAULT_GPU = "H100"


class Explorer(w.VBox):
    """Pick a model and a GPU, move the controls, read vLLM's figures.

    `plan` is the last good plan; it stays while an input is wrong.
    Engine arguments without a control of their own are kept and passed on.
    """

    plan = traitlets.Any(allow_none=True)

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        gpu: str | GPU = DEFAULT_GPU,
        **arguments: object,
    ) -> None:
        self.form = Form(model, gpu)
        self.results = Results()
        self._others: dict[str, Any] = {
            name: value
            for name, value in arguments.items()
            if name not in self.form.fields
        }
        self._read_models: dict[str, ModelArchitecture | None] = {}
        self._reader = Reader()
        self._guard = guarded(self.results.alert)
        self._recompute = self._guard(self._plan_and_show)
        self.form.set(arguments)
        body = w.Box([self.form, self.results])
        body.add_class("planner-body")
        super().__init__([body])
        self.add_class("planner-explorer")
        self._is_showing = False
        self.form.on_change(self._recompute)
        self._recompute()

    @classmethod
    def for_plan(cls, plan: Plan) -> Explorer:
        """Open the explorer on an existing plan."""
        return cls(plan.name, plan.gpu, **_arguments(plan))

    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        """Add a still picture to the live view."""
        bundle: dict[str, object] = super()._repr_mimebundle_(**options)
        if self.plan is None:
            return bundle
        return bundle | {"text/html": snapshot_html(self.plan)}

    def _plan_and_show(self, _change: object = None) -> None:
        """Gather every control, plan once, show the answer."""
        if self._is_showing:
            return
        self._reader.cancel()
        self.form.model.show_reading("")
        try:
            request = self._others | self.form.gather()
        except FieldError:
            return
        name = request["model"]
        if self._must_read(name):
            self._read(name)
            return
        request["model"] = self._read_models.get(name) or name
        self._show(planner.plan(**request))

    def _show(self, plan: Plan) -> None:
        self.plan = plan
        self._is_showing = True
        try:
            # A slider that shows a default moves, which is no action of the user.
            self.form.show_defaults(plan.resolved)
        finally:
            self._is_showing = False
        self.results.show(plan)

    def _must_read(self, name: str) -> bool:
        return name not in self._read_models and catalogue.find(name) is None

    def _read(self, name: str) -> None:
        """Read a model that is not in the catalogue, apart from the page."""
        self.form.model.show_reading(name)
        self._reader.start(
            lambda: planner.plan(model=name).model,
            self._guard(lambda model: self._take(name, model)),
            self._guard(self._fail),
        )

    def _take(self, name: str, model: ModelArchitecture | None) -> None:
        self._read_models[name] = model
        self._plan_and_show()

    def _fail(self, error: Exception) -> None:
        self.form.model.show_reading("")
        raise error


class Results(w.VBox):
    """Verdict, chart, command, table and notes of the last good plan."""

    def __init__(self) -> None:
        self.alert = w.HTML()
        self.verdict = w.HTML()
        self.error = w.HTML()
        self.chart = PlotlyChart(figure={"data": [], "layout": {"height": 160}})
        self.figures = w.HTML()
        self.command = w.HTML()
        self.tables = w.HTML()
        self.certainty = w.HTML()
        self.notes = w.HTML()
        parts = {
            "alert": self.alert,
            "verdict": self.verdict,
            "error": self.error,
            "bars": self.chart,
            "figures": self.figures,
            "command": self.command,
            "tables": self.tables,
            "certainty": self.certainty,
            "notes": self.notes,
        }
        for name, part in parts.items():
            part.add_class(f"planner-{name}")
            part.add_class("pl-plan")
        self.run = RunSection() if is_allowed() else None
        shared_style = w.HTML(f"<style>{style()}</style>")
        shared_style.add_class("planner-style")
        run = [] if self.run is None else [self.run]
        super().__init__([shared_style, *parts.values(), *run])
        self.add_class("planner-results")

    def show(self, plan: Plan) -> None:
        """Replace what is shown by `plan`."""
        with self.chart.hold_sync():
            self.chart.figure = figure_spec(plan)
            self.chart.label = spoken(plan)
        self.verdict.value = tables.verdict_html(plan)
        self.error.value = tables.error_html(plan)
        self.figures.value = tables.figures_html(plan)
        self.command.value = tables.command_html(plan)
        self.tables.value = tables.tables_html(plan)
        self.certainty.value = certainty_html(plan)
        self.notes.value = tables.notes_html(plan)
        if self.run is not None:
            self.run.plan = plan


def _arguments(plan: Plan) -> dict[str, Any]:
    """Return what the user of `plan` typed, without what was left to vLLM."""
    typed = {
        field.name: getattr(plan.settings, field.name)
        for field in dataclasses.fields(plan.settings)
        if field.name != "others"
    }
    given = {name: value for name, value in typed.items() if value is not None}
    start = {"vllm_version": plan.vllm_version, "entrypoint": plan.entrypoint}
    env = {"env": dict(plan.env)} if plan.env else {}
    return given | dict(plan.settings.others) | start | env
