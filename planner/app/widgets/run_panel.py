"""Runs the plan: starts vLLM, shows its progress, and compares with the estimate.

vLLM starts on this machine's GPU or processor (Run), or its own code starts without a
GPU (Ask vLLM). Results of both stay comparable until another plan is started.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING

import ipywidgets as w
import traitlets

from planner.app.widgets import run_thread
from planner.app.widgets.background import Reader
from planner.app.widgets.callbacks import alert_html, guarded
from planner.app.widgets.consent import Consent
from planner.app.widgets.fields import FieldError
from planner.app.widgets.run_options import (
    DRY_STAGES,
    STAGES,
    OptionsForm,
    RunProgress,
    command_of,
)
from planner.app.widgets.run_result import RunResult
from planner.app.widgets.run_words import device_words, dry_words
from planner.app.widgets.section import ASK, named
from planner.app.widgets.static_files import sheet
from planner.confirming import installation
from planner.confirming.confirmation import Confirmation
from planner.confirming.dry.result import DryRun
from planner.confirming.installation import NotInstalled
from planner.errors import PlannerError
from planner.planning.inputs import Inputs
from planner.show.confirmation_text import answer as shown
from planner.show.document import style
from planner.show.dry_run import answer as shown_dry
from planner.show.html import Content, Html, tag
from planner.show.pieces import command_line
from planner.show.verdict import subject
from planner.surroundings import is_in_browser

if TYPE_CHECKING:
    from planner.confirming.installation import Installation
    from planner.confirming.stages import StartStage
    from planner.planning.result import Plan

CHECK_SECONDS = 2.0
"""How often the panel checks whether a page still shows it."""

_INTRO = (
    "Run starts vLLM with exactly the planned arguments, in a process of its own, and "
    "compares what it measures with the estimate. Ask vLLM needs no GPU: vLLM starts "
    "on a simulated one and reports what it would allocate. The process ends after the "
    "measurement, when you press Stop, or when you close this page."
)
_UNPLANNED = (
    "The planner has no plan of {}, so there is nothing to run. vLLM itself can be "
    "asked."
)
_NO_START = (
    "Nothing can be started here: a browser does not run other programs. On a "
    "computer with vLLM, this panel starts it and compares what it measures with the "
    "estimate, as below."
)


class RunPanel(w.VBox):
    """Runs `plan` when Run is pressed, and asks vLLM without a GPU when Ask is.

    `confirmation` and `dry_run` are the last results.
    """

    plan = traitlets.Any(allow_none=True)
    unplanned = traitlets.Any(allow_none=True)
    """Inputs of which there is no plan: vLLM can only be asked. None: `plan` counts."""
    confirmation = traitlets.Any(allow_none=True)
    dry_run = traitlets.Any(allow_none=True)

    def __init__(self, plan: Plan | None = None, *, is_alone: bool = True) -> None:
        self.options = OptionsForm()
        self.run_button = w.Button(description="Run", tooltip="Start vLLM")
        self.ask_button = w.Button(
            description=ASK, tooltip="Start vLLM on a simulated GPU"
        )
        self.stop_button = w.Button(
            description="Stop", tooltip="End vLLM", disabled=True
        )
        self.what = w.HTML()
        self.installation = w.HTML()
        self.consent = Consent()
        self.alert = w.HTML()
        self.progress = RunProgress()
        self.result = RunResult()
        self._run: run_thread.RunThread | None = None
        self._newest: run_thread.RunThread | None = None
        self._started: Inputs | None = None
        self._reader = Reader()
        self._described: tuple[str | None, object] | None = None
        self._guard = guarded(self._say)
        buttons = w.HBox([self.run_button, self.ask_button, self.stop_button])
        super().__init__(
            [
                *([_style()] if is_alone else []),
                self.what,
                self.options,
                self.installation,
                self.consent,
                buttons,
                self.alert,
                self.progress,
                self.result,
            ],
            plan=plan,
        )
        self._is_alone = is_alone
        self.add_class("planner-run")
        buttons.add_class("planner-run-buttons")
        self.run_button.add_class("planner-run-start")
        self.ask_button.add_class("planner-run-ask")
        self.stop_button.add_class("planner-run-stop")
        self.run_button.on_click(self._guard(self._start))
        self.ask_button.on_click(self._guard(self._start_dry))
        self.stop_button.on_click(self._guard(lambda _button: self.stop()))
        self.options.python.on_change(self._guard(self._describe))
        self.observe(self._take_plan, names=["plan", "unplanned"])
        self._take_plan()
        if is_in_browser():
            self._show_recorded()

    @property
    def is_running(self) -> bool:
        """Whether vLLM runs now."""
        return self._run is not None

    def ask(self) -> None:
        """Ask vLLM, as its button does, and move the page to the progress."""
        self._is_asked = True
        self._guard(self._start_dry)()
        self.progress.seek()

    def stop(self) -> None:
        """Stop the current run, if there is one."""
        if self._run is not None:
            self.progress.stopping()
            self.stop_button.disabled = True
            self._run.stop()

    def wait(self, seconds: float) -> None:
        """Wait until the run has ended."""
        if self._newest is not None:
            self._newest.wait(seconds)

    def close(self) -> None:
        """Stop the run, and close the panel."""
        self.stop()
        super().close()

    def _say(self, message: str) -> None:
        self.alert.value = alert_html(message) if message else ""

    def _start(self, _button: object = None) -> None:
        if self._run is not None:  # a second click, before the button was disabled
            return
        plan = self._planned()
        if plan is None:
            raise PlannerError("There is no plan yet. Choose a model first.")
        self.consent.check()
        try:
            options = self.options.read()
        except FieldError:
            return
        self._begin(
            lambda listener: run_thread.new_run(plan, options, listener),
            Inputs.of(plan),
            f"{subject(plan)}: {command_of(plan)}",
            STAGES,
        )

    def _start_dry(self, _button: object = None) -> None:
        if self._run is not None:
            return
        plan, inputs = self._planned(), self._inputs()
        if inputs is None:
            raise PlannerError("There is nothing to ask yet. Choose a model first.")
        self.consent.check()
        try:
            options = self.options.read_dry()
        except FieldError:
            return
        told = (
            " on ".join(named(inputs))
            if plan is None
            else f"{subject(plan)}: {command_of(plan)}"
        )
        self._begin(
            lambda listener: run_thread.new_dry_run(inputs, options, listener),
            inputs,
            f"Without a GPU: {told}",
            DRY_STAGES,
        )

    def _planned(self) -> Plan | None:
        """Return the plan that the buttons are for."""
        plan: Plan | None = None if self.unplanned is not None else self.plan
        return plan

    def _inputs(self) -> Inputs | None:
        """Return what is started, planned or not."""
        plan = self._planned()
        inputs: Inputs | None = self.unplanned if plan is None else Inputs.of(plan)
        return inputs

    def _begin(
        self,
        new_engine: run_thread.NewEngine,
        inputs: Inputs,
        title: str,
        stages: tuple[StartStage, ...],
    ) -> None:
        plan = self._planned()
        run = run_thread.RunThread(
            new_engine,
            on_event=self._guard(self.progress.tell),
            on_end=self._guard(lambda answer: self._show_end(plan, answer)),
        )
        self._run = self._newest = run
        if inputs != self._started:
            self.result.forget()
            self._started = inputs
        self.result.clear()
        self.progress.begin(title, stages)
        self._set_running(True)
        self._watch(run, time.monotonic())
        run.start()

    def _show_end(self, plan: Plan | None, answer: object) -> None:
        self._run = None
        self._set_running(False)
        if not isinstance(answer, BaseException):
            if self.options.gone:  # vLLM was installed since it was looked for
                self._described = None
            self._describe()
        if isinstance(answer, Confirmation):
            self.result.show(answer)
            self.progress.end(
                shown(answer).headline,
                is_whole=answer.measurement.is_started is True,
            )
            self.confirmation = answer
        elif isinstance(answer, DryRun):
            self.result.show_dry(answer, plan)
            headline = shown_dry(answer).headline
            self.progress.end(headline, is_whole=answer.started is True)
            self.dry_run = answer
        elif isinstance(answer, BaseException):
            self.progress.give_up()
            if isinstance(answer, NotInstalled):
                self.installation.value = ""  # said once, in the alert
            raise answer
        else:
            self.progress.end("ended without a measurement", is_whole=False)

    def _set_running(self, is_running: bool) -> None:
        plan = self._planned()
        self.run_button.disabled = is_running or self.unplanned is not None
        self.ask_button.disabled = is_running or (plan is not None and plan.gpu.is_cpu)
        self.stop_button.disabled = not is_running
        self.options.is_disabled = is_running

    def _watch(self, run: run_thread.RunThread, last: float) -> None:
        """Stop the run when no page shows it any more; otherwise check again later."""
        if run is not self._run:
            return
        now = time.monotonic()
        if now - last > 3 * CHECK_SECONDS:
            # The kernel was busy and received no messages: start counting again.
            self.progress.presence.begin()
        if self.progress.presence.is_gone:
            self.stop()
        run_thread.later(CHECK_SECONDS, lambda: self._watch(run, now))

    def _take_plan(self, _change: object = None) -> None:
        self._is_asked = False
        self._name_plan()
        self.consent.show(None if is_in_browser() else self._inputs())
        self._set_running(self.is_running)
        self._describe()

    def _show_recorded(self) -> None:
        """Show a recorded start, where vLLM cannot be started."""
        from planner.learn.account import recorded  # noqa: PLC0415 - few need it

        record = recorded()
        buttons = (self.run_button, self.ask_button, self.stop_button)
        for part in (self.options, *buttons, self.progress):
            part.layout.display = "none"
        self.installation.value = _installed_html(record.label)
        self.result.show(record.compare())

    def _name_plan(self) -> None:
        told: Content = None
        plan = self._planned()
        if self.unplanned is not None:
            told = tag("p", _UNPLANNED.format(" on ".join(named(self.unplanned))))
        elif self._is_alone and plan is not None:
            told = (
                tag("p", subject(plan), class_="pl-run-plan"),
                command_line(command_of(plan), "Command"),
            )
        intro = tag("p", _NO_START if is_in_browser() else _INTRO)
        self.what.value = tag("div", told, intro, class_="pl-plan")

    def _describe(self, _change: object = None) -> None:
        """Show which vLLM and device would be used; found in the background."""
        if is_in_browser():
            return
        plan, python = self._planned(), self.options.python_path
        needed = (python, _needs(plan))
        if needed == self._described or self.is_running:
            return
        if self._described is None or self._described[0] != python:
            looking = tag("p", "Looking for vLLM …", class_="pl-reading")
            self.installation.value = looking
        self._described = needed
        self._reader.start(
            lambda: _installed(plan, python),
            self._guard(self._show_installed),
            self._guard(self._show_missing),
        )

    def _show_installed(self, words: object) -> None:
        # Options that come above a progress that the page was moved to push it away.
        self.options.show(has_vllm=not self._is_asked)
        self.installation.value = _installed_html(str(words)) if words else ""

    def _show_missing(self, error: Exception) -> None:
        self.options.show(has_vllm=False)
        if not isinstance(error, PlannerError):
            self.installation.value = ""
            raise error
        if not self.alert.value:
            self.installation.value = _installed_html(str(error))


def _installed_html(words: str) -> Html:
    return tag("p", words, class_="pl-installed")


def _needs(plan: Plan | None) -> object:
    """Return the parts of a plan that decide whether it can run here."""
    rank = None if plan is None else plan.limiting_rank
    budget = None if rank is None else rank.requested_memory_bytes
    return plan and (plan.gpu, plan.vllm_version, plan.gpus_total, budget)


@lru_cache
def _found(python: str | None, *, for_gpu: bool) -> Installation:
    """Find the vLLM of a Python once: every step of a slider may need it."""
    return installation.find(python, for_gpu=for_gpu)


def _installed(plan: Plan | None, python: str | None) -> str:
    """Return which vLLM and device would be used.

    A Python that was typed is described, not started: whoever types may not know whose
    program it is.

    Raises:
        PlannerError: if there is none, with how to install it on this machine.
    """
    if python is not None:
        return installation.unstarted(python)
    found = _found(python, for_gpu=plan is None or not plan.gpu.is_cpu)
    words = [installation.sentence(found)]
    if plan is not None:
        words.append(device_words(plan, found))
    words.append(dry_words(plan, found))
    return " ".join(words)


def _style() -> w.HTML:
    sheets = Html(sheet("chart.css", "explorer.css"))
    written = w.HTML(tag("style", style(), sheets))
    written.add_class("planner-style")
    return written
