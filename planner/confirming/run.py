"""One start of vLLM, from the plan's arguments to the figures that it measured."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from planner.calibrations.keeping import store
from planner.confirming import installation
from planner.confirming.alone.offline import MARK
from planner.confirming.alone.supervisor import TIME_IS_OVER
from planner.confirming.collecting import FIGURES, engine_from, load_from, worker_from
from planner.confirming.comparison import confirmation_of
from planner.confirming.confirmation import Confirmation
from planner.confirming.devices import Devices, choose
from planner.confirming.events import Event, Listener
from planner.confirming.from_log import measurement_of
from planner.confirming.launch import FIRST_ANSWER, Launch, first_prompt, prepare
from planner.confirming.load import load_of, send_load
from planner.confirming.measurement import LoadFigures, Measurement
from planner.confirming.options import RunOptions
from planner.confirming.process import Process
from planner.confirming.server import Server
from planner.confirming.stages import StageTracker, StartStage
from planner.errors import PlannerError
from planner.result import Plan

_STEP_SECONDS = 0.1


Keep: TypeAlias = Callable[[Measurement, int | None], str | None]
"""Takes what was measured, and by how much other memory moved; returns a note."""


def stored(plan: Plan, measurement: Measurement, moved_bytes: int | None) -> str:
    """Keep the figures for later plans; a full disk costs no more than a note."""
    try:
        kept = store(plan, measurement, moved_bytes=moved_bytes)
    except PlannerError as error:
        return str(error)
    return (
        f"Stored as record {kept.record.id}: later plans of this start use it. planner "
        f"calibration forget {kept.record.id} takes it away."
    )


class Run:
    """One start: `execute` blocks until it is over, `stop` ends it from anywhere."""

    def __init__(
        self,
        plan: Plan,
        options: RunOptions | None = None,
        listener: Listener | None = None,
        keep: Keep | None = None,
    ) -> None:
        self.plan = plan
        self.options = options or RunOptions()
        self._listener = listener
        self._keep = keep or self._store
        self._lines: list[str] = []
        self._told: dict[str, Any] = {}
        self._profiled: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._tracker = StageTracker()
        self._process: Process | None = None
        self._is_stopped = threading.Event()
        self._begin = time.monotonic()
        self._ready_seconds: float | None = None
        self._load_task: dict[str, int] | None = None

    def stop(self) -> None:
        """End the run; returns at once, `execute` returns within a second."""
        self._is_stopped.set()
        if self._process is not None:
            self._process.ask_to_stop()

    def execute(self) -> Confirmation:
        """Start vLLM, read its figures, end it, and return them beside the plan.

        Raises:
            PlannerError: before anything is started, where it cannot be: vLLM is
                missing or another release, the GPU is not there or not free, the port
                is taken, the model's folder is empty.
        """
        self._begin = time.monotonic()
        self._reach(StartStage.CHECKING)
        found = installation.find(self.options.python)
        installation.check_release(found, self.plan.vllm_version)
        devices = choose(self.plan, found)
        self._notes += devices.notes
        if self.options.load_requests is not None:
            self._load_task = load_of(self.plan, self.options.load_requests)
        # A short path: sockets in it may have 107 characters at most.
        scratch = Path(tempfile.mkdtemp(prefix="planner-"))
        try:
            launch = prepare(
                self.plan, self.options, found, devices, scratch, self._load_task
            )
            self._notes += launch.notes
            self._run(launch, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        measurement = self._measurement(found, devices)
        self._notes += self._unanswered(measurement)
        if self.options.is_stored and measurement.is_started:
            note = self._keep(measurement, devices.moved_bytes())
            self._notes += [note] if note else []
        confirmation = confirmation_of(
            self.plan,
            measurement,
            log_text="\n".join(self._lines),
            notes=tuple(self._notes),
            is_stopped=self._is_stopped.is_set(),
        )
        self._reach(StartStage.DONE)
        return confirmation

    def _store(self, measurement: Measurement, moved_bytes: int | None) -> str:
        return stored(self.plan, measurement, moved_bytes)

    def _run(self, launch: Launch, scratch: Path) -> None:
        if self._is_stopped.is_set():
            return
        self._reach(StartStage.STARTING)
        self._process = process = Process(
            launch.command,
            environment=launch.environment,
            limit_seconds=self.options.time_limit_seconds,
            scratch=scratch,
            on_line=self._take,
        )
        try:
            if self._is_stopped.is_set():
                process.ask_to_stop()
            if launch.port is None:
                process.wait()
            else:
                self._drive(Server(launch.port), launch, process)
        except BaseException:
            process.stop()
            raise
        finally:
            if process.status is None and not self._is_stopped.is_set():
                self._reach(StartStage.STOPPING)
                process.quit()
            process.stop()
            self._note_end(process)
        if process.failure is not None:
            raise process.failure

    def _drive(self, server: Server, launch: Launch, process: Process) -> None:
        """Wait for a server, then ask it; a server that ends has told its log."""
        while process.status is None and not server.is_ready():
            process.wait(_STEP_SECONDS)
        if process.status is not None or self._is_stopped.is_set():
            return
        self._take_ready()
        with contextlib.suppress(*_GONE):
            workers = server.call_workers(FIGURES)
            self._told["figures"] = {
                "workers": workers,
                "engine": server.cache_config(),
            }
            self._generate(server, launch)
            if self._load_task is not None:
                self._reach(StartStage.LOAD)
                self._told["load"] = send_load(
                    server, self._load_task, self._is_stopped.is_set
                )

    def _generate(self, server: Server, launch: Launch) -> None:
        prompt = first_prompt(self.plan)
        if prompt is None:
            return
        self._reach(StartStage.GENERATING)
        more = {} if launch.has_tokenizer else {"detokenize": False}
        try:
            answer = server.complete(prompt, FIRST_ANSWER, **more)
        except PlannerError as error:
            self._told["refused"] = str(error)
            return
        choice = answer["choices"][0]
        tokens = choice.get("token_ids") or []
        self._told["generated"] = {"tokens": tokens, "text": choice.get("text") or ""}

    def _take(self, line: str) -> None:
        """Keep a line of the log, in the thread that reads it."""
        event = _event_in(line)
        if event is not None:
            self._take_event(event)
            return
        self._lines.append(line)
        if self._tracker.stage is not StartStage.STOPPING:
            # What is written on the way out would push the answer out of sight.
            self._tell(self._tracker.advance(line), (line,))

    def _take_event(self, event: dict[str, Any]) -> None:
        """Keep what the programs beside vLLM tell."""
        name = event.pop("event")
        if name == "profiled":
            self._profiled.append(event)
            return
        self._told[name] = event
        if name == "figures":
            self._take_ready()
            self._reach(StartStage.GENERATING)
        elif name == "generated" and self._load_task is not None:
            self._reach(StartStage.LOAD)

    def _take_ready(self) -> None:
        self._ready_seconds = time.monotonic() - self._begin
        self._reach(StartStage.READY)

    def _note_end(self, process: Process) -> None:
        seconds = time.monotonic() - self._begin
        if self._is_stopped.is_set():
            self._notes.append(f"Stopped after {seconds:.0f} s, {self._tracker.stage}.")
        elif process.status == TIME_IS_OVER:
            limit = self.options.time_limit_seconds
            self._notes.append(
                f"Ended after the time limit of {limit:g} s, {self._tracker.stage}. "
                "Give a longer time_limit_seconds."
            )

    def _measurement(
        self, found: installation.Installation, devices: Devices
    ) -> Measurement:
        logged = measurement_of("\n".join(self._lines))
        figures: Mapping[str, Any] = self._told.get("figures") or {}
        workers = figures.get("workers") or self._profiled
        generated = self._told.get("generated") or {}
        is_up = self._ready_seconds is not None
        return replace(
            logged,
            vllm_version=found.version,
            device_name=devices.device_name,
            driver_version=devices.driver_version,
            date=datetime.now(UTC).date().isoformat(),
            workers=tuple(worker_from(told) for told in workers),
            engine=engine_from(workers, figures.get("engine", {})),
            error=None if is_up else logged.error,
            is_started=True if is_up else self._failed(),
            generated_tokens=tuple(generated.get("tokens", ())),
            generated_text=generated.get("text", ""),
            load=self._load_figures(),
            is_dummy=self.options.weights == "dummy",
            seconds=self._ready_seconds or time.monotonic() - self._begin,
        )

    def _unanswered(self, measurement: Measurement) -> tuple[str, ...]:
        """Say why a vLLM that was ready did not answer the prompt, if it did not."""
        is_asked = first_prompt(self.plan) is not None and measurement.is_started
        if not is_asked or "generated" in self._told or self._is_stopped.is_set():
            return ()
        why = measurement.log.later_error or self._told.get("refused")
        return (f"It did not answer a prompt: {why or 'vLLM does not say why'}",)

    def _failed(self) -> bool | None:
        """False where vLLM ended by itself; None where it was ended."""
        status = None if self._process is None else self._process.status
        was_ended = self._is_stopped.is_set() or status == TIME_IS_OVER
        return None if was_ended else False

    def _load_figures(self) -> LoadFigures | None:
        told = self._told.get("load")
        if told is None or self._load_task is None or isinstance(told, LoadFigures):
            return told
        return load_from(self._load_task, told)

    def _reach(self, stage: StartStage) -> None:
        self._tell(self._tracker.reach(stage))

    def _tell(self, stage: StartStage, lines: tuple[str, ...] = ()) -> None:
        if self._listener is not None:
            self._listener(
                Event(
                    stage=stage,
                    fraction=self._tracker.fraction,
                    lines=lines,
                    seconds=time.monotonic() - self._begin,
                    reached=tuple(self._tracker.reached),
                )
            )


def _event_in(line: str) -> dict[str, Any] | None:
    """Return what a program beside vLLM tells in a line; None for a line of the log."""
    _before, mark, text = line.partition(MARK)
    try:
        event = json.loads(text) if mark else None
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


_GONE = (OSError, ValueError, http.client.HTTPException)
"""What asking a server raises that has just gone, or is being ended."""
