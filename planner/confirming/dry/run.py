"""dry_run(): let vLLM itself start on a GPU that is not there.

vLLM's own code resolves the arguments, builds the model with random weights, profiles
its run and divides the KV cache, under PyTorch's own allocator. Only CUDA's libraries
are false: they compute nothing, and memory of the driver is the planner's estimate.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.confirming import installation
from planner.confirming.differences import confirmation_of
from planner.confirming.dry import false_gpu
from planner.confirming.dry.prepared import Prepared, driver_of, estimate_of, launch
from planner.confirming.dry.result import Alive, DryRun
from planner.confirming.installation import Installation
from planner.confirming.measurement import Measurement
from planner.confirming.options import Listener, check_time_limit
from planner.confirming.stages import StartStage
from planner.confirming.start import StartedProcess, stage_lines
from planner.engine.devices import gpu_named
from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST, resolve_version
from planner.engine.settings import settings_from
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.planning.batches import check_entrypoint
from planner.planning.inputs import Inputs
from planner.planning.result import Plan
from planner.surroundings import cache_folder
from planner.values import frozen

HOW_TO_INSTALL = (
    f"A dry run starts vLLM's build for NVIDIA GPUs, on any Linux machine: python -m "
    f"venv vllm-env && vllm-env/bin/pip install vllm=={NEWEST} (10 GB), then "
    f"vllm_python='vllm-env/bin/python', or {installation.PYTHON_VARIABLE}."
)
CACHES = ("shared", "cold", "both")


@frozen
class DryOptions:
    """How vLLM is started without a GPU.

    Raises:
        PlannerError: for an invalid value.
    """

    python: str | None = None
    """Python of vLLM's environment; None: PLANNER_VLLM_PYTHON, else this one."""
    time_limit_seconds: float = 1800.0
    """Time after which vLLM is ended, ready or not."""
    compile_cache: str = "shared"
    """shared: as earlier runs left it; cold: empty; both: cold, then warm."""
    has_real_workers: bool = False
    """Whether every rank is a process, as on GPUs; else one process stands for all."""
    is_traced: bool = False
    """Whether the run says what is alive at the peak, by line of code."""

    def __post_init__(self) -> None:
        if self.compile_cache not in CACHES:
            raise PlannerError(
                f"compile_cache={self.compile_cache!r}: use shared (as earlier runs "
                "left it), cold (empty), or both (cold, then warm)."
            )
        check_time_limit(self.time_limit_seconds)


@named_in_errors
def dry_run(  # noqa: PLR0913 - the inputs of a plan, and how vLLM is started
    model: str | os.PathLike[str],
    gpu: str | GPU = "H100",
    *,
    vllm_python: str | None = None,
    vllm_version: str | None = None,
    entrypoint: str = "serve",
    env: Mapping[str, str] | None = None,
    listener: Listener | None = None,
    compile_cache: str = "shared",
    has_real_workers: bool = False,
    is_traced: bool = False,
    time_limit_seconds: float = 1800.0,
    **engine_args: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> DryRun:
    """Start vLLM on a GPU that is not there, and return what it measured of itself.

    Needs Linux, a C compiler and vLLM's build for NVIDIA GPUs, but no GPU and no
    weights. Without a `listener`, a line is written for each stage.

    Args:
        model: Hub id, catalogue id, or path of a folder or config.json.
        gpu: catalogue name, "attached", or a `GPU`.
        vllm_python: Python of vLLM's environment; None: PLANNER_VLLM_PYTHON, else this
            one.
        vllm_version: None: the release that is installed there.
        entrypoint: serve, llm or engine, whose defaults apply.
        env: vLLM's environment variables.
        listener: is called with stages and lines of the log.
        compile_cache: shared (as earlier runs left it), cold, or both.
        has_real_workers: start a process for every rank.
        is_traced: say what is alive at the first rank's peak, by line of code.
        time_limit_seconds: after which vLLM is ended.
        engine_args: vLLM's EngineArgs by name.

    Raises:
        PlannerError: if vLLM cannot be started. A vLLM that starts and refuses is a
            result, not an error.
    """
    options = DryOptions(
        python=vllm_python,
        compile_cache=compile_cache,
        has_real_workers=has_real_workers,
        is_traced=is_traced,
        time_limit_seconds=time_limit_seconds,
    )
    inputs = Inputs(
        model=os.fspath(model),
        gpu=gpu,
        vllm_version=vllm_version or "",
        entrypoint=entrypoint,
        env=dict(env or {}),
        engine_args=engine_args,
    )
    chosen = stage_lines(sys.stdout) if listener is None else listener
    return DryStart(inputs, options, chosen).execute()


def dry_python() -> str | None:
    """Return the Python of a vLLM that dry runs can start; None: there is none."""
    try:
        found = installation.find()
        false_gpu.built_for(found)
    except PlannerError:
        return None
    return found.python


def of_plan(plan: Plan, **options: Any) -> DryRun:  # noqa: ANN401 - those of DryOptions
    """Start vLLM for a plan without a GPU; see `dry_run`."""
    listener = options.pop("listener", None) or stage_lines(sys.stdout)
    if "vllm_python" in options:
        options["python"] = options.pop("vllm_python")
    return DryStart(Inputs.of(plan), DryOptions(**options), listener).execute()


class DryStart:
    """One dry run: `execute` blocks until its end, `stop` ends it from any thread."""

    def __init__(
        self,
        inputs: Inputs,
        options: DryOptions | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.inputs = inputs
        self.options = options or DryOptions()
        self._listener = listener
        self._notes: list[str] = []
        self._lines: list[str] = []
        self._tree: dict[str, Any] = {}
        self._alive: Sequence[Mapping[str, Any]] = ()
        self._fault: str | None = None
        self._is_stopped = threading.Event()
        self._started = self._new_start()

    def stop(self) -> None:
        """End it; returns at once, and `execute` within a second."""
        self._is_stopped.set()
        self._started.stop()

    def execute(self) -> DryRun:
        """Start vLLM without a GPU, and return its figures beside the plan.

        Raises:
            PlannerError: if it cannot be started: vLLM, Linux or a compiler is
                missing, the build is one for processors, the model is not found.
        """
        self._started.reach(StartStage.CHECKING)
        prepared = self._prepare()
        self._notes += prepared.notes
        measured, cold = self._measure(prepared)
        self._started.reach(StartStage.DONE)
        return self._result(prepared, measured, cold)

    def _measure(self, prepared: Prepared) -> tuple[Measurement, Measurement | None]:
        """Return the last start's figures, and those with a cold cache before it."""
        if self.options.compile_cache == "shared":
            folder = cache_folder("dry-run") / f"compiled-{prepared.found.version}"
            return self._one(prepared, folder), None
        folder = Path(tempfile.mkdtemp(prefix="planner-cache-"))
        try:
            first = self._one(prepared, folder)
            has_compiled = first.is_compile_cache_cold and first.is_started
            if self.options.compile_cache == "cold" or not has_compiled:
                return first, None
            self._started = self._new_start()
            if self._is_stopped.is_set():
                self._started.stop()
            return self._one(prepared, folder), first
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _new_start(self) -> StartedProcess:
        return _DryProcess(self._listener, self.options.time_limit_seconds)

    def _one(self, prepared: Prepared, caches: Path) -> Measurement:
        # A short path: the path of a socket has at most 107 characters.
        scratch = Path(tempfile.mkdtemp(prefix="planner-"))
        started = self._started
        try:
            command, variables, notes = launch(prepared, scratch, caches)
            started.run(command, environment=variables, scratch=scratch)
            self._notes += [*notes, *started.end_notes()]
        finally:
            self._lines += started.lines
            self._tree = started.results.get("tree") or {}
            self._alive = started.results.get("trace", {}).get("alive", ())
            self._fault = started.results.get("fault", {}).get("text")
            self._notes += filter(None, [started.results.get("note", {}).get("text")])
            shutil.rmtree(scratch, ignore_errors=True)
        measured = started.measured(
            vllm_version=prepared.found.version,
            device_name=prepared.gpu.device_name or prepared.gpu.name,
            is_dummy=True,
            is_dry=True,
        )
        if self._fault is not None:  # says nothing of vLLM
            return replace(measured, is_started=None, error=None)
        if measured.is_started is False and measured.error is None:
            # Not an error that vLLM's logs are known for: its last words.
            last = next((line for line in reversed(started.lines) if line.strip()), "")
            measured = replace(measured, error=last.strip() or "It wrote nothing.")
        return measured

    def _prepare(self) -> Prepared:
        found = _installed(self.options.python)
        wanted = self.inputs.vllm_version or found.version
        installation.check_release(found, wanted)
        release, notes = resolve_version(found.version)
        given = self.inputs.gpu
        gpu = given if isinstance(given, GPU) else gpu_named(given)
        if gpu.is_cpu:
            raise PlannerError(
                "A dry run starts vLLM on an NVIDIA GPU that is not there. The CPU "
                "backend starts on any machine: planner.confirm(plan)."
            )
        check_entrypoint(self.inputs.entrypoint)
        inputs = replace(self.inputs, gpu=gpu, vllm_version=release.version)
        settings = settings_from(inputs.engine_args)
        estimate, unplanned = estimate_of(inputs)
        return Prepared(
            found=found,
            inputs=inputs,
            gpu=gpu,
            settings=settings,
            libraries=false_gpu.built_for(found),
            has_real_workers=self.options.has_real_workers,
            is_traced=self.options.is_traced,
            estimate=estimate,
            unplanned=unplanned,
            driver=driver_of(inputs, estimate),
            notes=notes,
        )

    def _result(
        self, prepared: Prepared, measured: Measurement, cold: Measurement | None
    ) -> DryRun:
        estimate, notes = prepared.estimate, tuple(self._notes)
        log_text = "\n".join(self._lines)
        confirmation = None
        if estimate is not None:
            confirmation = confirmation_of(
                estimate, measured, log_text=log_text, notes=notes
            )
        return DryRun(
            model=_name(prepared.inputs),
            gpu=prepared.gpu,
            entrypoint=prepared.inputs.entrypoint,
            engine_args=dict(prepared.inputs.engine_args),
            env=dict(prepared.inputs.env),
            measurement=measured,
            cold=cold,
            driver=prepared.driver,
            estimate=estimate,
            unplanned=prepared.unplanned,
            confirmation=confirmation,
            tree=self._tree,
            alive=tuple(Alive(**one) for one in self._alive),
            fault=self._fault,
            notes=notes,
            log_text=log_text,
        )


def _installed(python: str | None) -> Installation:
    """Return the vLLM that is started.

    Raises:
        PlannerError: with how to install one for dry runs.
    """
    try:
        return installation.find(python)
    except installation.NotInstalled as error:
        raise PlannerError(f"{error.where} {HOW_TO_INSTALL}") from error


class _DryProcess(StartedProcess):
    """The process of a dry run."""

    def on_event(self, name: str) -> None:
        if name == "figures":
            self.take_ready()


def _name(inputs: Inputs) -> str:
    return inputs.model if isinstance(inputs.model, str) else inputs.model.name
