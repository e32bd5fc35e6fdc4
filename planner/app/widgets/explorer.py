"""The explorer: controls on one side, the plan on the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import traitlets

import planner
from planner.app.widgets import background
from planner.app.widgets.advice_section import AdviceSection
from planner.app.widgets.answer import Answer, Place
from planner.app.widgets.background import Reader
from planner.app.widgets.callbacks import Later, guarded
from planner.app.widgets.chart import Address, snapshot_html
from planner.app.widgets.export_section import ExportSection
from planner.app.widgets.form import FieldError, Form
from planner.app.widgets.pins import PinSection
from planner.app.widgets.ray_section import RaySection
from planner.app.widgets.reading_section import ReadingSection
from planner.app.widgets.section import (
    FurtherArguments,
    Offer,
    RunSection,
    Section,
    is_allowed,
)
from planner.errors import PlannerError, UnknownArchitecture
from planner.export.links import link
from planner.export.reading_links import read_link
from planner.models import catalogue
from planner.planning.inputs import Inputs
from planner.show.page import OPEN_AT_FIRST, PANELS

if TYPE_CHECKING:
    from planner.engine.gpu import GPU
    from planner.models.architecture import ModelArchitecture
    from planner.planning.result import Plan
    from planner.show.html import Html

DEFAULT_MODEL = "meta-llama/Llama-3.1-8B-Instruct"
DEFAULT_GPU = "H100"
MOST_READ_MODELS = 8
"""How many of the models that it read a session keeps."""
ADDRESS_SECONDS = 0.3
"""Browsers refuse to change the address with every step of a slider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The state of all controls."""

    values: Mapping[str, Any]
    others: Mapping[str, Any]
    """Arguments and variables without a control."""


class Explorer(w.VBox):
    """Choose a model and a GPU, move the controls, read vLLM's figures.

    `plan` is the last good plan; it stays while an input is invalid.
    Environment variables, which have no control, are listed, kept and passed on.
    """

    plan = traitlets.Any(allow_none=True)

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        gpu: str | GPU = DEFAULT_GPU,
        **arguments: object,
    ) -> None:
        self.form = Form(model, gpu)
        self.results = Results(self._apply, self._undo, self._open_plan)
        self.further = FurtherArguments(self._keep_further)
        self.address = Address(self._open_link)
        self._others: dict[str, Any] = {
            name: value
            for name, value in arguments.items()
            if name not in self.form.fields
        }
        self._before: tuple[str, Inputs] | None = None
        self._read_models: dict[str, ModelArchitecture | None] = {}
        self._reader = Reader()
        self._drafts = background.Drafts()
        self._later = Later(ADDRESS_SECONDS)
        self._guard = guarded(self.results.say)
        self._recompute = self._guard(self._plan_and_show)
        self.form.set(arguments)
        self.form.main.add_class("planner-controls")
        self.results.put(ArgumentSection(self.form, self.further))
        self.pasted = ReadingSection(self)
        body = w.Box([self.pasted, self.form.main, self.results])
        body.add_class("planner-body")
        super().__init__([body, self.address])
        self.add_class("planner-explorer")
        self._is_showing = False
        self.form.on_change(self._changed)
        self._recompute()

    @classmethod
    def for_plan(cls, plan: Plan) -> Explorer:
        """Open the explorer on an existing plan."""
        inputs = Inputs.of(plan)
        start = {"vllm_version": inputs.vllm_version, "entrypoint": inputs.entrypoint}
        env = {"env": dict(inputs.env)} if inputs.env else {}
        return cls(plan.name, plan.gpu, **inputs.engine_args, **start, **env)

    def take(self, inputs: Inputs) -> None:
        """Set every control to these inputs, and plan once.

        Raises:
            PlannerError: for an unknown GPU.
        """
        self._is_showing = True
        try:
            self._others = self.form.take(inputs)
        finally:
            self._is_showing = False
        self._recompute()

    def remember(self) -> Remembered:
        """Return the state of all controls."""
        return Remembered(values=self.form.values(), others=dict(self._others))

    def bring_back(self, before: Remembered) -> None:
        """Return to a state of the controls, and plan once."""
        self._is_showing = True
        try:
            self.form.restore(before.values)
            self._others = dict(before.others)
        finally:
            self._is_showing = False
        self._recompute()

    def request(self) -> dict[str, Any]:
        """Return the arguments of `planner.plan` that the controls ask for.

        Raises:
            PlannerError: when a control's entry is invalid; the control shows it too.
        """
        return self._others | self.form.gather()

    def give_back(self, write: Callable[[], Html] | None) -> None:
        """Offer the user's own text among the exports; None: there is none."""
        self.results.export.give_back(write)

    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        """Add a static version to the live view."""
        bundle: dict[str, object] = super()._repr_mimebundle_(**options)
        if self.plan is None:
            return bundle
        return bundle | {"text/html": snapshot_html(self.plan)}

    def _changed(self, change: object) -> None:
        """Plan again after a change of a control, which ends the undo of advice."""
        if self._is_showing:
            return
        self.pasted.changed(change)
        self._before = None
        self._recompute()

    def _plan_and_show(self) -> None:
        """Gather all controls, plan once, show the plan."""
        self._reader.cancel()
        self.form.model.show_reading("")
        self.results.offer(None)
        try:
            request = self.request()
        except FieldError:
            self.results.answer.say("")
            return
        name = request["model"]
        if self._must_read(name):
            self._read(name, request)
            return
        draft = background.named(request)
        if draft and self._drafts.must_be_read(draft):
            self._read_draft(draft)
            return
        request["model"] = self._read_models.get(name) or name
        try:
            plan = planner.plan(**request)
        except PlannerError as error:
            self._offer(error, request)
            if not self.form.place_error(error):
                raise
            self.results.answer.say("")
            return
        self._show(plan)

    def _offer(self, error: Exception, request: Mapping[str, Any]) -> None:
        """Offer to ask vLLM itself about what the planner does not model."""
        if isinstance(error, UnknownArchitecture):
            self.results.offer(Inputs(model=request["model"]).changed(**request))

    def _show(self, plan: Plan) -> None:
        self.plan = plan
        self._is_showing = True
        try:
            # Sliders move to defaults, which is not an action of the user.
            self.form.show_defaults(plan.resolved)
            if plan.model is not None:
                self.form.show_model(plan.model)
        finally:
            self._is_showing = False
        self.further.show(self._others)
        self.results.show(plan, applied=self._before[0] if self._before else "")
        self._later.run(lambda: self._tell_address(plan))

    def _tell_address(self, plan: Plan) -> None:
        self.address.query = _query(plan)

    def _apply(self, title: str, changes: Mapping[str, Any]) -> None:
        """Apply an advice's changes to the current plan."""
        self._guard(self._apply_change)(title, changes)

    def _apply_change(self, title: str, changes: Mapping[str, Any]) -> None:
        if self.plan is None:
            return
        before = Inputs.of(self.plan)
        self._before = (title, before)
        self.take(before.changed(**changes))

    def _undo(self) -> None:
        """Return to the inputs before the last advice was applied."""
        if self._before is not None:
            _, before = self._before
            self._before = None
            self._guard(self.take)(before)

    def _open_plan(self, plan: Plan) -> None:
        self._before = None
        self._guard(self.take)(Inputs.of(plan))

    def _open_link(self, query: str) -> None:
        """Open the plan of the page's address; show which parts of it were ignored."""
        found = read_link(query)
        self._before = None
        self._guard(self.take)(found.inputs)
        if found.ignored:
            text = " ".join(found.ignored)
            self.results.answer.say(f"Not taken from the link: {text}", is_stale=False)

    def _keep_further(self, others: dict[str, Any]) -> None:
        self._others = others
        self._before = None
        self._recompute()

    def _must_read(self, name: str) -> bool:
        return name not in self._read_models and catalogue.find(name) is None

    def _read(self, name: str, request: Mapping[str, Any]) -> None:
        """Read a model that is not in the catalogue, in the background."""

        def fail(error: Exception) -> None:
            self._offer(error, request)
            self._fail(error)

        self.form.model.show_reading(name)
        self._reader.start(
            lambda: planner.plan(model=name).model,
            self._guard(lambda model: self._take(name, model)),
            self._guard(fail),
        )

    def _read_draft(self, name: str) -> None:
        """Read a draft that is not in the catalogue, in the background."""
        self.form.model.show_reading(name)
        self._reader.start(
            lambda: self._drafts.read(name),
            self._guard(lambda _files: self._plan_and_show()),
            self._guard(self._fail),
        )

    def _take(self, name: str, model: ModelArchitecture | None) -> None:
        while len(self._read_models) >= MOST_READ_MODELS:
            self._read_models.pop(next(iter(self._read_models)))
        self._read_models[name] = model
        self._plan_and_show()

    def _fail(self, error: Exception) -> None:
        self.form.model.show_reading("")
        raise error


def _query(plan: Plan) -> str:
    """Return the plan as a query; empty where it has no link: a model in a folder."""
    try:
        return link(plan)
    except PlannerError:
        return ""


class ArgumentSection(Section):
    """All engine arguments behind a button."""

    def __init__(self, form: Form, further: w.Widget) -> None:
        super().__init__("All engine arguments", "arguments")
        self._form, self._further = form, further

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the controls, created when first opened, and the further arguments."""
        return (self._form.more, self._further)


class Results(w.VBox):
    """The last good plan: the answer, the advice, the command, the panels."""

    def __init__(
        self,
        apply: Callable[[str, Mapping[str, Any]], None],
        undo: Callable[[], None],
        open_plan: Callable[[Plan], None],
    ) -> None:
        self.answer = Answer()
        self.advice = AdviceSection(apply, undo)
        self.command = Place("command")
        self.panels = Place(*(f"panel-{key}" for key in PANELS), opened=self._toggled)
        self.pins = PinSection(open_plan)
        self.export = ExportSection()
        self.ray = RaySection()
        self.run = RunSection() if is_allowed() else None
        has_start = self.run is not None and self.run.can_start
        self.asking = Offer(self._ask if has_start else None)
        self._plan: Plan | None = None
        self._opened = set(OPEN_AT_FIRST)
        super().__init__(self._columns(()))
        self.add_class("planner-results")

    def put(self, *sections: w.Widget) -> None:
        """Place more sections below the panels."""
        self.children = self._columns(sections)

    def show(self, plan: Plan, *, applied: str = "") -> None:
        """Show `plan`; `applied` names the advice that led to it."""
        self._plan = plan
        self.answer.show(plan, self._opened)
        self.advice.show(plan, applied=applied)
        self.pins.show(plan)
        self.export.show(plan)
        self.ray.show(plan)
        if self.run is not None:
            self.run.plan = plan

    def offer(self, inputs: Inputs | None) -> None:
        """Offer to ask vLLM itself, for want of a plan; None: no longer."""
        self.asking.show(inputs)
        if self.run is not None:
            self.run.unplanned = inputs

    def _ask(self) -> None:
        if self.run is not None:
            self.run.ask()

    def say(self, message: str) -> None:
        """Show a message; the next plan clears it."""
        if message:
            self.answer.say(message)

    def _columns(self, sections: tuple[w.Widget, ...]) -> tuple[w.Box, w.Box]:
        run = () if self.run is None else (self.run,)
        first = w.VBox([self.answer, self.asking, self.advice, self.command])
        first.add_class("planner-first")
        more = w.VBox([self.panels, *sections, self.pins, self.ray, self.export, *run])
        more.add_class("planner-more")
        return first, more

    def _toggled(self, key: str, is_open: bool) -> None:
        if key not in PANELS:
            return
        (self._opened.add if is_open else self._opened.discard)(key)
        if self._plan is not None:
            self.answer.show_panels(self._plan, self._opened)


def for_plan(plan: Plan) -> Explorer:
    """Return the explorer for a plan; see `Plan.explore`."""
    return Explorer.for_plan(plan)
