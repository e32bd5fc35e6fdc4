"""Starts of vLLM that start nothing, on a device and without a GPU.

Their interface is that of `confirming.run.Run` and `confirming.dry.run.DryStart`.
"""

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import ClassVar

from planner.app.widgets import explorer, run_options, run_panel, run_thread
from planner.app.widgets.callbacks import Presence
from planner.confirming.measurement import Measurement
from planner.confirming.options import Event
from planner.confirming.stages import StartStage
from planner.engine.releases import NEWEST
from planner.errors import PlannerError, UnknownArchitecture
from planner.planning import planning
from tests import confirmations

STAGES = [
    stage
    for stage in StartStage
    if stage not in (StartStage.STOPPING, StartStage.LOAD, StartStage.DONE)
]
UNREAD = "nobody/new-model"
"""A model that `plan_all_but_one` does not read."""
FOLDER = "FAKE_RUN_FOLDER"
"""Environment variable: where a run notes that it began and how it ended."""


class FakeRun:
    """Goes through the stages and confirms; a limit of a minute: until it is stopped.

    With real weights it fails as a start without vLLM does.
    """

    pause_seconds = 0.12
    stages = tuple(STAGES)
    made: ClassVar[list["FakeRun"]] = []

    def __init__(self, plan, options, listener=None) -> None:
        self.plan, self.options, self.listener = plan, options, listener
        self.flag = Flag()
        self.began = time.monotonic()
        type(self).made.append(self)

    @property
    def is_refused(self) -> bool:
        """Whether vLLM is missing."""
        return self.options.weights == "real"

    def answer(self, *, is_stopped):
        """What `execute` returns."""
        return confirmations.stopped() if is_stopped else confirmations.confirmed()

    def execute(self):
        """Tell of each stage, with lines that a page must not take for HTML."""
        self._note("began")
        if self.is_refused:
            raise PlannerError("vLLM is not installed here. Run: pip install vllm")
        is_endless = self.options.time_limit_seconds == 60
        for stage in self.stages:
            self._tell(stage, f"\x1b[36mINFO\x1b[0m <b>{stage}</b>", f"{stage}: done")
            if stage is StartStage.LOADING:
                self._tell(stage, *(f"loading shard {n}" for n in range(60)))
            while is_endless and stage is StartStage.PROFILING:
                self._tell(stage, "still profiling")
                if self.flag.wait(0.05):
                    break
            if self.flag.wait(self.pause_seconds):
                self._tell(StartStage.STOPPING)
                self._note("stopped")
                return self.answer(is_stopped=True)
        self._tell(StartStage.DONE)
        self._note("finished")
        return self.answer(is_stopped=False)

    def stop(self) -> None:
        """As the real one: returns at once."""
        self.flag.set()

    def _tell(self, stage, *lines) -> None:
        seconds = time.monotonic() - self.began
        self.listener(
            Event(stage=stage, fraction=stage.fraction, lines=lines, seconds=seconds)
        )

    def _note(self, word) -> None:
        if os.environ.get(FOLDER):
            (Path(os.environ[FOLDER]) / word).touch()


class FakeDryStart(FakeRun):
    """The same without a GPU, of inputs; with a cold compile cache it fails."""

    stages = tuple(stage for stage in STAGES if stage is not StartStage.GENERATING)
    made: ClassVar[list["FakeRun"]] = []

    @property
    def is_refused(self) -> bool:
        """As the real one where there is no vLLM."""
        return self.options.compile_cache == "cold"

    def answer(self, *, is_stopped):
        """A dry run; of a model that was not read, without an estimate."""
        if is_stopped:
            return replace(confirmations.dry_run(), measurement=Measurement())
        is_read = not isinstance(self.plan.model, str)
        return confirmations.dry_run() if is_read else confirmations.unplanned_run()


def plan_all_but_one(model, **given):
    """Plan, except for a model of an architecture that the planner does not read."""
    if model == UNREAD:
        raise UnknownArchitecture("NewForCausalLM is not modelled.")
    return planning.plan(model, **given)


def install(leave_seconds: float = 1.0) -> None:
    """Let every panel of this kernel run the fake, and miss a page sooner."""
    run_thread.new_run = FakeRun
    run_thread.new_dry_run = FakeDryStart
    explorer.plan_start = plan_all_but_one
    run_panel._installed = lambda _plan, _python: f"vLLM {NEWEST} (a stand-in)."
    run_options.Presence = partial(Presence, leave_seconds=leave_seconds)
