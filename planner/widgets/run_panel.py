"""Run the plan: start vLLM, watch it, and lay what it measures over the estimate."""

from __future__ import annotations

import time
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

import ipywidgets as w
import traitlets

from planner.charts.confirmed_bars import figure_spec
from planner.confirming.confirmation import Confirmation
from planner.errors import PlannerError
from planner.in_browser import is_in_browser
from planner.presentation import confirmation as shown
from planner.presentation.confirmation_bars import legend_html
from planner.presentation.confirmation_text import said, spoken
from planner.presentation.page import style
from planner.presentation.text import subject
from planner.widgets import running
from planner.widgets.chart import PlotlyChart
from planner.widgets.fields import FieldError
from planner.widgets.guard import alert_html, guarded
from planner.widgets.reader import Reader
from planner.widgets.run_options import OptionsForm
from planner.widgets.run_progress import RunProgress
from planner.widgets.static_files import sheet

if TYPE_CHECKING:
    from planner.confirming.events import Event
    from planner.confirming.installation import Installation
    from planner.confirming.options import RunOptions
    from planner.result import Plan

CHECK_SECONDS = 2.0
"""How often is looked whether a page still looks."""

_INTRO = (
    "<p>Starts vLLM with exactly the planned arguments, in a process of its own, and "
    "lays what it measures over the estimate. The process ends with the measurement, "
    "with Stop, and with this page.</p>"
)
_NO_START = (
    "<p>In a browser alone nothing can be started: it runs no other programs. On a "
    "computer with vLLM, this panel starts it and lays what it measures over the "
    "estimate, as below.</p>"
)


class RunPanel(w.VBox):
    """Runs `plan` as it is when Run is pressed; `confirmation` is the last answer."""

    plan = traitlets.Any(allow_none=True)
    confirmation = traitlets.Any(allow_none=True)

    def __init__(self, plan: Plan | None = None, *, is_alone: bool = True) -> None:
        self.options = OptionsForm()
        self.run_button = w.Button(description="Run", tooltip="Start vLLM")
        self.stop_button = w.Button(
            description="Stop", tooltip="End vLLM", disabled=True
        )
        self.what = w.HTML()
        self.installation = w.HTML()
        self.alert = w.HTML()
        self.progress = RunProgress()
        self.result = RunResult()
        self._run: running.Running | None = None
        self._newest: running.Running | None = None
        self._reader = Reader()
        self._described: tuple[str | None, object] | None = None
        self._guard = guarded(self._say)
        buttons = w.HBox([self.run_button, self.stop_button])
        super().__init__(
            [
                *([_style()] if is_alone else []),
                self.what,
                self.options,
                self.installation,
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
        self.stop_button.add_class("planner-run-stop")
        self.run_button.on_click(self._guard(self._start))
        self.stop_button.on_click(self._guard(self._stop_clicked))
        self.options.python.on_change(self._guard(self._describe))
        self.observe(self._take_plan, names="plan")
        self._take_plan()
        if is_in_browser():
            self._show_recorded()

    @property
    def is_running(self) -> bool:
        """Whether vLLM runs now."""
        return self._run is not None

    def stop(self) -> None:
        """End the run that goes on, if there is one."""
        if self._run is not None:
            self.progress.stopping()
            self.stop_button.disabled = True
            self._run.stop()

    def wait(self, seconds: float) -> None:
        """Wait until the run has ended."""
        if self._newest is not None:
            self._newest.wait(seconds)

    def close(self) -> None:
        """End the run with the panel."""
        self.stop()
        super().close()

    def _say(self, message: str) -> None:
        self.alert.value = alert_html(message) if message else ""

    def _start(self, _button: object = None) -> None:
        if self._run is not None:  # a second click came before the page knew
            return
        if self.plan is None:
            raise PlannerError("There is no plan yet. Choose a model first.")
        try:
            options = self.options.read()
        except FieldError:
            return
        self._begin(self.plan, options)

    def _begin(self, plan: Plan, options: RunOptions) -> None:
        run = running.Running(
            plan, options, told=self._guard(self._told), ended=self._guard(self._ended)
        )
        self._run = self._newest = run
        self.result.clear()
        self.progress.begin(f"{subject(plan)}: {_command(plan)}")
        self._set_running(True)
        self._watch(run, time.monotonic())
        run.start()

    def _told(self, event: Event) -> None:
        self.progress.tell(event)

    def _ended(self, answer: object) -> None:
        self._run = None
        self._set_running(False)
        self._describe()
        if isinstance(answer, Confirmation):
            words = said(answer)
            self.result.show(answer)
            self.progress.end(
                words.headline, is_whole=answer.measurement.is_started is True
            )
            self.confirmation = answer
            return
        self.progress.end("ended without a measurement", is_whole=False)
        if isinstance(answer, BaseException):
            raise answer

    def _stop_clicked(self, _button: object) -> None:
        self.stop()

    def _set_running(self, is_running: bool) -> None:
        self.run_button.disabled = is_running
        self.stop_button.disabled = not is_running
        self.options.is_disabled = is_running

    def _watch(self, run: running.Running, last: float) -> None:
        """End the run when no page looks any more; look again in a while."""
        if run is not self._run:
            return
        now = time.monotonic()
        if now - last > 3 * CHECK_SECONDS:
            # The kernel was busy with something else and heard nobody: ask again.
            self.progress.presence.begin()
        if self.progress.presence.is_gone:
            self.stop()
        running.later(CHECK_SECONDS, lambda: self._watch(run, now))

    def _take_plan(self, _change: object = None) -> None:
        self._name_plan()
        self._describe()

    def _show_recorded(self) -> None:
        """Show a start that was recorded, where none can be made."""
        from planner.learn.recorded import recorded  # noqa: PLC0415 - only here

        record = recorded()
        for part in (self.options, self.run_button, self.stop_button, self.progress):
            part.layout.display = "none"
        self.installation.value = f"<p class='pl-installed'>{escape(record.label)}</p>"
        self.result.show(record.compare())

    def _name_plan(self) -> None:
        named = ""
        if self._is_alone and self.plan is not None:
            named = (
                f"<p class='pl-run-plan'>{escape(subject(self.plan))}</p>"
                f"<pre class='pl-plain-command' tabindex='0' aria-label='Command'>"
                f"<code>{escape(_command(self.plan))}</code></pre>"
            )
        intro = _NO_START if is_in_browser() else _INTRO
        self.what.value = f"<div class='pl-plan'>{named}{intro}</div>"

    def _describe(self, _change: object = None) -> None:
        """Say which vLLM and device would be used; looking takes a while, so apart."""
        if is_in_browser():
            return
        plan, python = self.plan, self.options.python_path
        asked = (python, _needs(plan))
        if asked == self._described or self.is_running:
            return
        if self._described is None or self._described[0] != python:
            self.installation.value = "<p class='pl-reading'>Looking for vLLM …</p>"
        self._described = asked
        self._reader.start(
            lambda: _installed(plan, python),
            self._guard(self._show_installed),
            self._guard(self._show_missing),
        )

    def _show_installed(self, words: object) -> None:
        self.installation.value = (
            f"<p class='pl-installed'>{escape(str(words))}</p>" if words else ""
        )

    def _show_missing(self, error: Exception) -> None:
        self.installation.value = ""
        raise error


class RunResult(w.VBox):
    """Outcome, bars of estimate and measurement, table, and what they mean."""

    def __init__(self) -> None:
        super().__init__([])
        self.add_class("planner-run-result")

    def clear(self) -> None:
        """Show nothing."""
        self.children = ()

    def show(self, confirmation: Confirmation) -> None:
        """Show one confirmation; the chart is made only now, for it is heavy."""
        chart = PlotlyChart(
            figure=figure_spec(confirmation), label=spoken(confirmation)
        )
        parts = {
            "verdict": w.HTML(shown.verdict_html(confirmation)),
            "bars": chart,
            "legend": w.HTML(legend_html(confirmation)),
            "table": w.HTML(shown.comparison_html(confirmation)),
            "meaning": w.HTML(shown.meaning_html(confirmation)),
        }
        for name, part in parts.items():
            part.add_class("pl-plan")
            part.add_class(f"planner-run-{name}")
        self.children = tuple(parts.values())


def _command(plan: Plan) -> str:
    """Write what is started, with what the command line alone does not say."""
    variables = "".join(f"{name}={value} " for name, value in plan.env)
    by_class = " (by the LLM class)" if plan.entrypoint != "serve" else ""
    return f"{variables}{plan.command()}{by_class}"


def _needs(plan: Plan | None) -> object:
    """Return what of a plan decides whether it can be run here."""
    rank = None if plan is None else plan.limiting_rank
    budget = None if rank is None else rank.requested_memory_bytes
    return plan and (plan.gpu, plan.vllm_version, plan.gpus_total, budget)


@lru_cache
def _found(python: str | None) -> Installation:
    """Ask a Python once: it takes a moment, and every step of a slider may ask."""
    from planner.confirming import installation  # noqa: PLC0415 - starts processes

    return installation.find(python)


def _installed(plan: Plan | None, python: str | None) -> str:
    """Say which vLLM and device would be used, or why none can be."""
    from planner.confirming import devices, installation  # noqa: PLC0415 - heavy

    try:
        found = _found(python)
    except PlannerError as error:
        return str(error)
    words = installation.sentence(found)
    if plan is None:
        return words
    try:
        installation.check_release(found, plan.vllm_version)
        device = devices.choose(plan, found).device_name
    except PlannerError as error:
        return f"{words} {error}"
    return f"{words} It would run on {device}."


def _style() -> w.HTML:
    written = w.HTML(f"<style>{style()}{sheet('chart.css', 'explorer.css')}</style>")
    written.add_class("planner-style")
    return written
