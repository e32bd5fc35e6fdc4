"""confirm(): start vLLM for a plan and compare what it measured with the estimate.

`Run` is one start, from the plan's arguments to the figures that vLLM measured.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from planner.confirming import installation
from planner.confirming.alone.offline import MARK
from planner.confirming.alone.supervisor import TIME_IS_OVER
from planner.confirming.calibration import store
from planner.confirming.comparison import confirmation_of
from planner.confirming.confirmation import Confirmation
from planner.confirming.devices import Devices, choose
from planner.confirming.figures import FIGURES, engine_from, load_from, worker_from
from planner.confirming.from_log import measurement_of
from planner.confirming.launch import FIRST_ANSWER, Launch, first_prompt, prepare
from planner.confirming.measurement import LoadFigures, Measurement
from planner.confirming.options import Event, Listener, RunOptions
from planner.confirming.process import Process
from planner.confirming.server import Server, load_of, send_load
from planner.confirming.stages import StageTracker, StartStage
from planner.errors import PlannerError
from planner.planning.result import Plan

_STEP_SECONDS = 0.1

Keep: TypeAlias = Callable[[Measurement, int | None], str | None]
"""Stores a measurement, given by how much other memory changed; returns a note."""

_GONE = (OSError, ValueError, http.client.HTTPException)
"""What a request raises if the server has just exited, or is being ended."""


def confirm(
    plan: Plan,
    *,
    listener: Listener | None = None,
    **options: Any,  # noqa: ANN401 - those of RunOptions
) -> Confirmation:
    """Start vLLM with exactly the plan's arguments and compare.

    vLLM runs in a process of its own and is ended before this returns, also after an
    interrupt. Without a `listener`, a line is written for each stage.

    Args:
        plan: the plan to start.
        listener: is called with stages and lines of the log.
        options: weights ("dummy" or "real"), python, time_limit_seconds,
            load_requests, port, is_stored; see `RunOptions`.

    Raises:
        PlannerError: if vLLM cannot be started: it is missing or another release, the
            GPU is missing or not free, the port is taken. A vLLM that starts and fails
            is a result, not an error.
    """
    chosen = stage_lines(sys.stdout) if listener is None else listener
    return Run(plan, RunOptions(**options), chosen).execute()


def stage_lines(out: TextIO) -> Callable[[Event], None]:
    """Return a listener that writes one line for each stage, with the seconds."""
    seen: set[StartStage] = set()

    def write(event: Event) -> None:
        if event.stage not in seen:
            seen.add(event.stage)
            out.write(f"{event.seconds:6.1f} s  {event.stage}\n")
            out.flush()

    return write


def stored(plan: Plan, measurement: Measurement, moved_bytes: int | None) -> str:
    """Store the figures for later plans and return a note; a failure is only a note."""
    try:
        kept = store(plan, measurement, moved_bytes=moved_bytes)
    except PlannerError as error:
        return str(error)
    return (
        f"Stored as record {kept.record.id}: later plans of this start use it. planner "
        f"calibration forget {kept.record.id} removes it."
    )


class Run:
    """One start: `execute` blocks until its end, `stop` ends it from any thread."""

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
        self._results: dict[str, Any] = {}
        self._profiled: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._tracker = StageTracker()
        self._process: Process | None = None
        self._is_stopped = threading.Event()
        self._begin = time.monotonic()
        self._ready_seconds: float | None = None
        self._load_task: dict[str, int] | None = None

    def stop(self) -> None:
        """End the run; returns at once, and `execute` within a second."""
        self._is_stopped.set()
        if self._process is not None:
            self._process.ask_to_stop()

    def execute(self) -> Confirmation:
        """Start vLLM, read its figures, end it, and return them beside the plan.

        Raises:
            PlannerError: before anything is started, if it cannot be: vLLM is missing
                or another release, the GPU is missing or not free, the port is taken,
                the model's folder is empty.
        """
        self._begin = time.monotonic()
        self._reach(StartStage.CHECKING)
        found = installation.find(self.options.python)
        installation.check_release(found, self.plan.vllm_version)
        devices = choose(self.plan, found)
        self._notes += devices.notes
        if self.options.load_requests is not None:
            self._load_task = load_of(self.plan, self.options.load_requests)
        # A short path: the path of a socket has at most 107 characters.
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
                self._query(Server(launch.port), launch, process)
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

    def _query(self, server: Server, launch: Launch, process: Process) -> None:
        """Wait until a server is ready, then read its figures, unless it exits."""
        while process.status is None and not server.is_ready():
            process.wait(_STEP_SECONDS)
        if process.status is not None or self._is_stopped.is_set():
            return
        self._take_ready()
        with contextlib.suppress(*_GONE):
            workers = server.call_workers(FIGURES)
            self._results["figures"] = {
                "workers": workers,
                "engine": server.cache_config(),
            }
            self._generate(server, launch)
            if self._load_task is not None:
                self._reach(StartStage.LOAD)
                self._results["load"] = send_load(
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
            self._results["refused"] = str(error)
            return
        choice = answer["choices"][0]
        tokens = choice.get("token_ids") or []
        self._results["generated"] = {
            "tokens": tokens,
            "text": choice.get("text") or "",
        }

    def _take(self, line: str) -> None:
        """Store a line of the log, in the thread that reads it."""
        event = _event_in(line)
        if event is not None:
            self._take_event(event)
            return
        self._lines.append(line)
        if self._tracker.stage is not StartStage.STOPPING:
            # Lines of the shutdown would hide the answer.
            self._notify(self._tracker.advance(line), (line,))

    def _take_event(self, event: dict[str, Any]) -> None:
        """Store an event of the programs beside vLLM."""
        name = event.pop("event")
        if name == "profiled":
            self._profiled.append(event)
            return
        self._results[name] = event
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
        figures: Mapping[str, Any] = self._results.get("figures") or {}
        workers = figures.get("workers") or self._profiled
        generated = self._results.get("generated") or {}
        is_up = self._ready_seconds is not None
        return replace(
            logged,
            vllm_version=found.version,
            device_name=devices.device_name,
            driver_version=devices.driver_version,
            date=datetime.now(UTC).date().isoformat(),
            workers=tuple(map(worker_from, workers)),
            engine=engine_from(workers, figures.get("engine", {})),
            error=None if is_up else logged.error,
            is_started=True if is_up else self._unready_outcome(),
            generated_tokens=tuple(generated.get("tokens", ())),
            generated_text=generated.get("text", ""),
            load=self._load_figures(),
            is_dummy=self.options.weights == "dummy",
            seconds=self._ready_seconds or time.monotonic() - self._begin,
        )

    def _unanswered(self, measurement: Measurement) -> tuple[str, ...]:
        """Return a note if vLLM was ready but did not answer the prompt."""
        has_prompt = first_prompt(self.plan) is not None and measurement.is_started
        if not has_prompt or "generated" in self._results or self._is_stopped.is_set():
            return ()
        why = measurement.log.later_error or self._results.get("refused")
        return (f"It did not answer a prompt: {why or 'vLLM does not say why'}",)

    def _unready_outcome(self) -> bool | None:
        """Return False if vLLM exited by itself, None if it was ended."""
        status = None if self._process is None else self._process.status
        was_ended = self._is_stopped.is_set() or status == TIME_IS_OVER
        return None if was_ended else False

    def _load_figures(self) -> LoadFigures | None:
        load = self._results.get("load")
        if load is None or self._load_task is None or isinstance(load, LoadFigures):
            return load
        return load_from(self._load_task, load)

    def _reach(self, stage: StartStage) -> None:
        self._notify(self._tracker.reach(stage))

    def _notify(self, stage: StartStage, lines: tuple[str, ...] = ()) -> None:
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
    """Return the event of a program beside vLLM; None for a line of vLLM's log."""
    _before, mark, text = line.partition(MARK)
    try:
        event = json.loads(text) if mark else None
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None
