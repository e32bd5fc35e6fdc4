"""confirm(): start vLLM for a plan and compare what it measured with the estimate.

`Run` is one start, from the plan's arguments to the figures that vLLM measured.
"""

from __future__ import annotations

import contextlib
import http.client
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from planner.confirming import installation
from planner.confirming.awake import Awake
from planner.confirming.calibration import store
from planner.confirming.confirmation import Confirmation
from planner.confirming.devices import Devices, choose
from planner.confirming.differences import confirmation_of
from planner.confirming.figures import FIGURES, load_figures
from planner.confirming.film import Film, facts_of
from planner.confirming.launch import FIRST_ANSWER, Launch, first_prompt, prepare
from planner.confirming.measurement import LoadFigures, Measurement
from planner.confirming.options import Event, Listener, RunOptions
from planner.confirming.process import Process
from planner.confirming.sampling import Camera
from planner.confirming.server import Server, send_load, sent_load
from planner.confirming.stages import StartStage
from planner.confirming.start import StartedProcess, stage_lines
from planner.engine.settings import given_arguments
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.solve.speed.bench import MeasuredSpeed
from planner.solve.speed.keeping import keep_speed

_STEP_SECONDS = 0.1

Keep: TypeAlias = Callable[[Measurement, int | None], str | None]
"""Stores a measurement, given by how much other memory changed; returns a note."""

_GONE = (OSError, ValueError, http.client.HTTPException)
"""What a request raises if the server has just exited, or is being ended."""


@named_in_errors
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
            load_requests, port, is_stored, is_filmed; see `RunOptions`.

    Raises:
        PlannerError: if vLLM cannot be started: it is missing or another release, the
            GPU is missing or not free, the port is taken. A vLLM that starts and fails
            is a result, not an error.
    """
    chosen = stage_lines(sys.stdout) if listener is None else listener
    return Run(plan, RunOptions(**options), chosen).execute()


def stored(plan: Plan, measurement: Measurement, moved_bytes: int | None) -> str:
    """Store the figures for later plans and return a note; a failure is only a note."""
    try:
        kept = store(plan, measurement, moved_bytes=moved_bytes)
    except PlannerError as error:
        return str(error)
    _keep_speed(plan, measurement)
    return (
        f"Stored as record {kept.record.id}: later plans of this start use it. planner "
        f"calibration forget {kept.record.id} removes it."
    )


def _keep_speed(plan: Plan, measurement: Measurement) -> None:
    """Keep the rate of a load probe, where there is a forecast that it corrects."""
    load = measurement.load
    if load is None or not load.num_finished or not load.seconds > 0:
        return
    with contextlib.suppress(PlannerError):
        keep_speed(plan, rate_of(load))


def rate_of(load: LoadFigures) -> MeasuredSpeed:
    """Return the tokens per second of a load probe, whose answers are not cut short."""
    return MeasuredSpeed(
        load=Load(
            prompt_tokens=load.prompt_tokens,
            output_tokens=load.output_tokens,
            requests=load.num_requests,
        ),
        total_tokens_per_second=load.num_finished * load.output_tokens / load.seconds,
    )


class Run(StartedProcess):
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
        super().__init__(self._heard_by(listener), self.options.time_limit_seconds)
        self._keep = keep or partial(stored, plan)
        self._notes: list[str] = []
        self._load_task: dict[str, int] | None = None
        self._camera: Camera | None = None
        self._awake = Awake()

    def execute(self) -> Confirmation:
        """Start vLLM, read its figures, end it, and return them beside the plan.

        Raises:
            PlannerError: before anything is started, if it cannot be: vLLM is missing
                or another release, the GPU is missing or not free, the port is taken,
                the model's folder is empty.
        """
        self.begin = time.monotonic()
        self.reach(StartStage.CHECKING)
        found = installation.find(self.options.python, for_gpu=not self.plan.gpu.is_cpu)
        installation.check_release(found, self.plan.vllm_version)
        devices = choose(self.plan, found)
        self._notes += devices.notes
        if self.options.load_requests is not None:
            self._load_task = sent_load(self.plan, self.options.load_requests)
        # A short path: the path of a socket has at most 107 characters.
        scratch = Path(tempfile.mkdtemp(prefix="planner-"))
        try:
            launch = prepare(
                self.plan, self.options, found, devices, scratch, self._load_task
            )
            self._notes += launch.notes
            with self._filming(devices), self._awake:
                self._launch(launch, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        measurement = self._measurement(found, devices)
        self._notes += [*self._unanswered(measurement), *self._slept()]
        if self.options.is_stored and measurement.is_started:
            note = self._keep(measurement, devices.moved_bytes())
            self._notes += [note] if note else []
        confirmation = confirmation_of(
            self.plan,
            measurement,
            log_text="\n".join(self.lines),
            notes=tuple(self._notes),
            is_stopped=self.is_stopped.is_set(),
        )
        self.reach(StartStage.DONE)
        return replace(confirmation, film=self._film(measurement))

    @contextlib.contextmanager
    def _filming(self, devices: Devices) -> Iterator[None]:
        """Sample the first GPU's memory, if the run is filmed."""
        if not self.options.is_filmed:
            yield
            return
        if not devices.free_bytes:
            raise PlannerError("A film is of an NVIDIA GPU, and there is none.")
        with Camera(devices.free_bytes[0][0]) as self._camera:
            yield

    def _film(self, measured: Measurement) -> Film | None:
        if self._camera is None or not measured.is_started:
            return None
        return self._camera.film(
            **facts_of(
                measured,
                measured.limiting_worker,
                given_arguments(self.plan.settings),
            ),
            model=self.plan.name,
            gpu=self.plan.gpu.name,
        )

    def _heard_by(self, listener: Listener | None) -> Listener:
        def hear(event: Event) -> None:
            if self._camera is not None:
                self._camera.hear(event)
            if listener is not None:
                listener(event)

        return hear

    def on_event(self, name: str) -> None:
        """Follow the program that starts the `LLM` class."""
        if name == "figures":
            self.take_ready()
            self.reach(StartStage.GENERATING)
        elif name == "generated" and self._load_task is not None:
            self.reach(StartStage.LOAD)

    def _launch(self, launch: Launch, scratch: Path) -> None:
        def query(process: Process) -> None:
            self._query(Server(launch.port or 0), launch, process)

        try:
            self.run(
                launch.command,
                environment=launch.environment,
                scratch=scratch,
                wait=None if launch.port is None else query,
            )
        finally:
            self._notes += self.end_notes()

    def _query(self, server: Server, launch: Launch, process: Process) -> None:
        """Wait until a server is ready, then read its figures, unless it exits."""
        while process.status is None and not server.is_ready():
            process.wait(_STEP_SECONDS)
        if process.status is not None or self.is_stopped.is_set():
            return
        self.take_ready()
        with contextlib.suppress(*_GONE):
            workers = server.call_workers(FIGURES)
            self.results["figures"] = {
                "workers": workers,
                "engine": server.cache_config(),
            }
            self._generate(server, launch)
            if self._load_task is not None:
                self.reach(StartStage.LOAD)
                self.results["load"] = send_load(
                    server, self._load_task, self.is_stopped.is_set
                )

    def _generate(self, server: Server, launch: Launch) -> None:
        prompt = first_prompt(self.plan)
        if prompt is None:
            return
        self.reach(StartStage.GENERATING)
        more = {} if launch.has_tokenizer else {"detokenize": False}
        try:
            answer = server.complete(prompt, FIRST_ANSWER, **more)
        except PlannerError as error:
            self.results["refused"] = str(error)
            return
        choice = answer["choices"][0]
        tokens = choice.get("token_ids") or []
        self.results["generated"] = {
            "tokens": tokens,
            "text": choice.get("text") or "",
        }

    def _measurement(
        self, found: installation.Installation, devices: Devices
    ) -> Measurement:
        generated = self.results.get("generated") or {}
        return self.measured(
            vllm_version=found.version,
            device_name=devices.device_name,
            driver_version=devices.driver_version,
            generated_tokens=tuple(generated.get("tokens", ())),
            generated_text=generated.get("text", ""),
            load=self._load_figures(),
            is_dummy=self.options.weights == "dummy",
        )

    def _unanswered(self, measurement: Measurement) -> tuple[str, ...]:
        """Return a note if vLLM was ready but did not answer the prompt."""
        has_prompt = first_prompt(self.plan) is not None and measurement.is_started
        if not has_prompt or "generated" in self.results or self.is_stopped.is_set():
            return ()
        why = measurement.log.later_error or self.results.get("refused")
        return (f"It did not answer a prompt: {why or 'vLLM does not say why'}",)

    def _slept(self) -> tuple[str, ...]:
        """Return a note if this machine did not run all the time."""
        missed = self._awake.missed_seconds
        if not missed:
            return ()
        return (
            f"This machine slept, or the planner was stopped, for {missed:,.0f} s "
            "meanwhile: memory is as measured, how fast vLLM was is not known.",
        )

    def _load_figures(self) -> LoadFigures | None:
        load = self.results.get("load")
        if load is None or self._load_task is None:
            return None
        if not isinstance(load, LoadFigures):
            load = load_figures(self._load_task, load)
        return replace(load, seconds=0.0) if self._awake.missed_seconds else load
