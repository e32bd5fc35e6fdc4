"""One confirmation on a machine of a cluster, run by a Ray task."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeAlias

from planner.confirming.confirmation import confirmation_dict
from planner.confirming.measurement import Measurement
from planner.confirming.options import Event, RunOptions
from planner.confirming.run import Run
from planner.confirming.stages import StartStage
from planner.errors import PlannerError
from planner.planning.result import Plan
from planner.user_files import user_path
from planner.values import frozen

Report: TypeAlias = Callable[[dict[str, Any]], None]

_EVENT_SECONDS = 1.0
_MAX_LINES = 40
_WEIGHTS = (
    *(".safetensors", ".bin", ".pt", ".pth", ".gguf"),
    *(".onnx", ".h5", ".msgpack", ".npz"),
)
_MAX_BYTES = 64 << 20


@frozen
class NodeJob:
    """A plan with what a machine needs to confirm it."""

    plan: Plan
    options: RunOptions
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files of the model's folder without its weights, if the caller has it locally."""


def job_of(plan: Plan, options: RunOptions) -> bytes:
    """Pack a plan for another machine.

    Raises:
        PlannerError: if its model's folder is too large to be sent.
    """
    files = _files(plan.name) if options.weights == "dummy" else {}
    return pickle.dumps(NodeJob(plan=plan, options=options, files=files))


def confirm_here(payload: bytes, report: Report) -> dict[str, Any]:
    """Confirm a packed plan on this machine; return plain values."""
    job: NodeJob = pickle.loads(payload)
    machine = os.uname().nodename
    report({"stage": str(StartStage.CHECKING), "machine": machine, "pid": os.getpid()})
    _unset_rays_threads()
    folder = None
    try:
        plan = job.plan
        if job.files and not user_path(plan.name).is_dir():
            folder = Path(tempfile.mkdtemp(prefix="planner-model-"))
            plan = replace(plan, name=str(_unpacked(job.files, folder, plan.name)))
        return _confirmed(plan, job.options, report) | {"machine": machine}
    except PlannerError as error:
        return {"problem": f"{machine}: {error}", "machine": machine}
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _confirmed(plan: Plan, options: RunOptions, report: Report) -> dict[str, Any]:
    kept: list[tuple[Measurement, int | None]] = []

    def keep(measurement: Measurement, moved_bytes: int | None) -> str | None:
        kept.append((measurement, moved_bytes))
        return None

    confirmation = Run(plan, options, _Reporter(report), keep).execute()
    log = zlib.compress(confirmation.log_text.encode())
    return {
        "outcome": str(confirmation.outcome),
        "figures": json.dumps(confirmation_dict(confirmation), default=str),
        "log": log.hex(),
        "kept": pickle.dumps(kept[0]).hex() if kept else None,
    }


class _Reporter:
    """Reports events to the caller's machine, at most one a second for each stage."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lines: list[str] = []
        self._stage: StartStage | None = None
        self._last = 0.0

    def __call__(self, event: Event) -> None:
        """Report an event, or keep its lines for the next report."""
        self._lines += event.lines
        now = time.monotonic()
        if event.stage is self._stage and now - self._last < _EVENT_SECONDS:
            return
        self._report(
            {
                "stage": str(event.stage),
                "fraction": event.fraction,
                "lines": self._lines[-_MAX_LINES:],
                "seconds": event.seconds,
                "reached": [str(stage) for stage in event.reached],
                "machine": os.uname().nodename,
            }
        )
        self._stage, self._last, self._lines = event.stage, now, []


def _files(name: str) -> dict[str, bytes]:
    """Return the files of a local model that a start with random weights reads."""
    folder = user_path(name)
    if not folder.is_dir():
        return {}
    found: dict[str, bytes] = {}
    left = _MAX_BYTES
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.suffix in _WEIGHTS:
            continue
        left -= path.stat().st_size
        if left < 0:
            raise PlannerError(
                f"{folder} holds more than {_MAX_BYTES >> 20} MiB besides its "
                "weights, "
                "too much to send along. Put it where all machines see it under the "
                "same path, and give weights='real'."
            )
        found[path.name] = path.read_bytes()
    return found


def _unpacked(files: Mapping[str, bytes], folder: Path, name: str) -> Path:
    model = folder / (Path(name).name or "model")
    model.mkdir()
    for file, content in files.items():
        (model / file).write_bytes(content)
    return model


def _unset_rays_threads() -> None:
    """Remove the number of threads that Ray sets to the task's CPUs: vLLM chooses it.

    A number that the machine's owner set was there when the process began, and is kept.
    Source: Ray 2.60.0 `_private/utils.py` set_omp_num_threads_if_unset.
    """
    try:
        began = Path("/proc/self/environ").read_bytes()
    except OSError:
        return
    if b"OMP_NUM_THREADS=" not in began:
        os.environ.pop("OMP_NUM_THREADS", None)
