"""A start of vLLM that starts nothing, with the interface of `confirming.run.Run`."""

import os
import time
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import ClassVar

from planner.app.widgets import run_options, run_panel, run_thread
from planner.app.widgets.callbacks import Presence
from planner.confirming.options import Event
from planner.confirming.stages import StartStage
from planner.errors import PlannerError
from tests import confirmations

STAGES = [
    stage
    for stage in StartStage
    if stage not in (StartStage.STOPPING, StartStage.LOAD, StartStage.DONE)
]
FOLDER = "FAKE_RUN_FOLDER"
"""Environment variable: where a run notes that it began and how it ended."""


class FakeRun:
    """Goes through the stages and confirms; a limit of a minute: until it is stopped.

    With real weights it fails as a start without vLLM does.
    """

    pause_seconds = 0.12
    made: ClassVar[list["FakeRun"]] = []

    def __init__(self, plan, options, listener=None) -> None:
        self.plan, self.options, self.listener = plan, options, listener
        self.flag = Flag()
        self.began = time.monotonic()
        FakeRun.made.append(self)

    def execute(self):
        """Tell of each stage, with lines that a page must not take for HTML."""
        self._note("began")
        if self.options.weights == "real":
            raise PlannerError("vLLM is not installed here. Run: pip install vllm")
        is_endless = self.options.time_limit_seconds == 60
        for stage in STAGES:
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
                return confirmations.stopped()
        self._tell(StartStage.DONE)
        self._note("finished")
        return confirmations.confirmed()

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


def install(leave_seconds: float = 1.0) -> None:
    """Let every panel of this kernel run the fake, and miss a page sooner."""
    run_thread.new_run = FakeRun
    run_panel._installed = lambda _plan, _python: "vLLM 0.33.0 (a stand-in)."
    run_options.Presence = partial(Presence, leave_seconds=leave_seconds)
