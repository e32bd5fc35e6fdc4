"""The explorer: controls on one side, the plan on the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import traitlets

from planner.app.widgets import background
from planner.app.widgets.background import Reader
from planner.app.widgets.callbacks import Later, guarded
from planner.app.widgets.chart import Bundle, snapshot_html, without_widgets
from planner.app.widgets.form import FieldError, Form
from planner.app.widgets.header import History, PageHeader
from planner.app.widgets.reading_section import ReadingSection
from planner.app.widgets.results import Results
from planner.app.widgets.section import ArgumentSection, FurtherArguments
from planner.errors import PlannerError, UnknownArchitecture
from planner.export.links import link
from planner.export.reading_links import read_link
from planner.models import catalogue
from planner.planning.inputs import Inputs
from planner.planning.planning import plan as plan_start
from planner.show.verdict import subject
from planner.surroundings import is_in_voila
from planner.values import frozen
from planner.views import bundle

if TYPE_CHECKING:
    from planner.engine.gpu import GPU
    from planner.models.architecture import ModelArchitecture
    from planner.planning.result import Plan

DEFAULT_MODEL = "meta-llama/Llama-3.1-8B-Instruct"
DEFAULT_GPU = "H100"
_NAMED = {"model": DEFAULT_MODEL, "gpu": DEFAULT_GPU}
"""What a page begins with, which nobody chose."""
MOST_READ_MODELS = 8
"""How many of the models that it read a session keeps."""
ADDRESS_SECONDS = 0.3
"""Browsers refuse to change the address with every step of a slider."""


@frozen
class Remembered:
    """The state of all controls."""

    values: Mapping[str, Any]
    others: Mapping[str, Any]
    """Arguments and variables without a control."""
    named: frozenset[str]
    """Of model and GPU, what the user chose: the others are where the page began."""


class Explorer(w.VBox):
    """Choose a model and a GPU, move the controls, read vLLM's figures.

    `plan` is the last good plan; it stays while an input is invalid.
    Environment variables, which have no control, are listed, kept and passed on.
    """

    plan = traitlets.Any(allow_none=True)

    def __init__(
        self,
        model: str | None = None,
        gpu: str | GPU | None = None,
        **arguments: object,
    ) -> None:
        given = {"model": model, "gpu": gpu}
        self.named = {name for name, value in given.items() if value is not None}
        """Of model and GPU, what the user chose, and no text."""
        self.form = Form(model or DEFAULT_MODEL, gpu or DEFAULT_GPU)
        self.results = Results(self._apply, self._undo, self._open_plan)
        self.further = FurtherArguments(self._keep_further)
        self.header = PageHeader(
            self.form.fields["vllm_version"], self._open_link, self._move, self._choose
        )
        self._others: dict[str, Any] = {
            name: value
            for name, value in arguments.items()
            if name not in self.form.fields and name != "load"
        }
        self._before: tuple[str, Inputs] | None = None
        self._chosen_for: tuple[str, GPU, str] | None = None
        """Model, GPU and release whose defaults the controls show."""
        self._read_models: dict[str, ModelArchitecture | None] = {}
        self._reader = Reader()
        self._drafts = background.Drafts()
        self._later = Later(ADDRESS_SECONDS)
        self._guard = guarded(self.results.say)
        self._recompute = self._guard(self._plan_and_show)
        self.form.set(arguments)
        self.form.main.add_class("planner-controls")
        self.pasted = ReadingSection(self)
        left = w.VBox([self.form.main, ArgumentSection(self.form, self.further)])
        left.add_class("planner-left")
        body = w.Box([self.header, self.pasted, left, self.results])
        body.add_class("planner-body")
        super().__init__([body])
        self.add_class("planner-explorer")
        self._is_showing = False
        self._history: History[Remembered] = History()
        self._now = self.remember()
        self.form.on_change(self._changed)
        self._recompute()

    @classmethod
    def for_plan(cls, plan: Plan) -> Explorer:
        """Open the explorer on an existing plan."""
        inputs = Inputs.of(plan)
        start = {"vllm_version": inputs.vllm_version, "entrypoint": inputs.entrypoint}
        env = {"env": dict(inputs.env)} if inputs.env else {}
        load = {"load": plan.load} if plan.load else {}
        return cls(plan.name, plan.gpu, **inputs.engine_args, **start, **env, **load)

    def take(self, inputs: Inputs | None, **values: Any) -> None:  # noqa: ANN401
        """Set every control to these inputs, and plan once.

        Without inputs the controls stay; of `values`, model or GPU, None is asked for.

        Raises:
            PlannerError: for an unknown GPU.
        """
        before = self.remember()
        self._is_showing = True
        try:
            if inputs is not None:
                self._others = self.form.take(inputs)
            self.form.put(values)
        finally:
            self._is_showing = False
        self._note(before)
        self._recompute()

    def remember(self) -> Remembered:
        """Return the state of all controls."""
        return Remembered(
            values=self.form.values(),
            others=dict(self._others),
            named=frozenset(self.named),
        )

    def hold(self, reason: str = "") -> None:
        """Show no plan until there is another, and say why."""
        self.results.hold()
        if reason:
            self._wait(reason)

    def resume(self) -> None:
        """Plan what the controls ask for."""
        self._recompute()

    def bring_back(self, before: Remembered) -> None:
        """Return to a state of the controls, and plan once."""
        self._note(self.remember())
        self._restore(before)

    def _restore(self, before: Remembered) -> None:
        self._is_showing = True
        try:
            self.form.restore(before.values)
            self._others = dict(before.others)
            self.named = set(before.named)
        finally:
            self._is_showing = False
        self._now = before
        self._recompute()

    def _note(self, before: Remembered, name: str = "") -> None:
        """Record a change of the controls, so that it can be taken back."""
        self._history.note(before, name)
        self._now = self.remember()
        self.header.show(self._history)

    def _move(self, way: str) -> None:
        """Take a change back, or make it again."""
        move = self._history.undo if way == "undo" else self._history.redo
        found = move(self.remember())
        if found is not None:
            self._before = None
            self._guard(self._restore)(found)
        self.header.show(self._history)

    def _choose(self, inputs: Inputs, named: Collection[str] = _NAMED) -> None:
        """Take inputs that the user chose: a recipe, a plan of their own, a link."""
        self._before = None
        self.named |= {*named}
        self._guard(self.take)(inputs)

    def request(self) -> dict[str, Any]:
        """Return the arguments of `planner.plan` that the controls ask for.

        Raises:
            PlannerError: when a control's entry is invalid; the control shows it too.
        """
        return self._others | self.form.gather()

    _ipython_display_ = None
    """ipywidgets 7 would display the live view alone."""

    def _repr_mimebundle_(self, **_options: object) -> tuple[Bundle, Bundle]:
        """Add a static version to the live view, and Colab's words for such a view."""
        shown, described = self.results.answer.live_view(self.model_id)
        if self.plan is None:
            return shown, described
        write = snapshot_html if is_in_voila() else without_widgets
        static = bundle(str(self.plan), write(self.plan))
        return shown | static, described

    def _changed(self, change: object) -> None:
        """Plan again after a change of a control, which ends the undo of advice."""
        if self._is_showing:
            return
        name = getattr(change, "name", "")
        self._note(self._now, name)
        self.named |= {name} & {*_NAMED}
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
        except FieldError as error:
            self._wait(self.pasted.question or f"✘ {error}")
            return
        name = request["model"]
        is_name = isinstance(name, str)  # else a model by hand
        if is_name and self._must_read(name):
            self._read(name, request)
            return
        draft = background.named(request)
        if draft and self._drafts.must_be_read(draft):
            self._read_draft(draft)
            return
        if is_name:
            request["model"] = self._read_models.get(name) or name
        try:
            plan = plan_start(**request)
        except PlannerError as error:
            self._offer(error, request)
            self._place(error)
            return
        self._show(plan)

    def _place(self, error: PlannerError) -> None:
        """Show an error at its field and above the answer, which is not for it.

        Raises:
            PlannerError: the same where no field is to blame; the guard shows it.
        """
        if not self.form.place_error(error):
            raise error
        self._wait(f"✘ {error}")

    def _wait(self, reason: str) -> None:
        """Mark the answer as not for the controls."""
        if self.results.answer.is_empty:
            self.form.forget_defaults()  # of another start
        self.results.wait(reason, subject(self.plan) if self.plan else "")

    def _offer(self, error: Exception, request: Mapping[str, Any]) -> None:
        """Offer to ask vLLM itself about what the planner does not model."""
        if isinstance(error, UnknownArchitecture):
            self.results.offer(Inputs(model=request["model"]).changed(**request))

    def _show(self, plan: Plan) -> None:
        self._is_showing = True
        try:
            # Sliders move to defaults, which is not an action of the user.
            self._show_defaults(plan)
            if plan.model is not None:
                self.form.show_model(plan.model)
        finally:
            self._is_showing = False
        self.further.show(self._others)
        self.results.show(plan, applied=self._before[0] if self._before else "")
        self.plan = (
            plan  # what follows it, such as another widget, is sent after the bars
        )
        self._later.run(lambda: self._tell_address(plan))

    def _show_defaults(self, plan: Plan) -> None:
        """Show what vLLM chose; where it refuses before that, nothing of another model.

        Moved to a refusal by one control, the others stay as they were.
        """
        start = (plan.name, plan.gpu, plan.vllm_version)
        if plan.resolved is None and start != self._chosen_for:
            self.form.forget_defaults()
        self._chosen_for = start
        self.form.show_defaults(plan.resolved)

    def _tell_address(self, plan: Plan) -> None:
        self.header.query = _query(plan)

    def _apply(self, title: str, changes: Mapping[str, Any]) -> None:
        """Apply an advice's changes to the current plan."""
        self._guard(self._apply_change)(title, changes)

    def _apply_change(self, title: str, changes: Mapping[str, Any]) -> None:
        if self.plan is None:
            return
        if self.results.answer.is_stale and not self.results.is_searching:
            raise PlannerError(
                "A change is applied to the plan on the screen, which is not for what "
                "the controls ask for now. Correct the marked control first."
            )
        before = Inputs.of(self.plan)
        self.named |= {*changes} & {*_NAMED}
        self._before = (title, before)
        self.take(before.changed(**changes))

    def _undo(self) -> None:
        """Return to the inputs before the last advice was applied."""
        if self._before is not None:
            _, before = self._before
            self._before = None
            self._guard(self.take)(before)

    def _open_plan(self, plan: Plan) -> None:
        self._choose(Inputs.of(plan))

    def _open_link(self, query: str) -> None:
        """Open the plan of the page's address; show which parts of it were ignored."""
        found = read_link(query)
        given = {name: getattr(found.inputs, name) for name in _NAMED}
        self._choose(found.inputs, [n for n in _NAMED if given[n] != _NAMED[n]])
        if found.ignored:
            text = " ".join(found.ignored)
            self.results.answer.say(f"Not taken from the link: {text}", is_stale=False)

    def _keep_further(self, others: dict[str, Any]) -> None:
        self._others = others
        self._note(self._now)
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
        self._wait(f"Reading {name} …")
        self._reader.start(
            lambda: plan_start(model=name).model,
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
        if not isinstance(error, PlannerError):
            raise error
        self._place(error)


def _query(plan: Plan) -> str:
    """Return the plan as a query; empty where it has no link: a model in a folder."""
    try:
        return link(plan)
    except PlannerError:
        return ""
