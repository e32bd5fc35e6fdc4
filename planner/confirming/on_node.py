"""One confirmation on a machine of a cluster: what a Ray task runs there."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from planner.confirming.as_dict import confirmation_dict
from planner.confirming.events import Event
from planner.confirming.measurement import Measurement
from planner.confirming.options import RunOptions
from planner.confirming.run import Run
from planner.confirming.stages import StartStage
from planner.errors import PlannerError
from planner.result import Plan

Tell: TypeAlias = Callable[[dict[str, Any]], None]

_EVENT_SECONDS = 1.0
_MOST_LINES = 40
_WEIGHTS = (
    *(".safetensors", ".bin", ".pt", ".pth", ".gguf"),
    *(".onnx", ".h5", ".msgpack", ".npz"),
)
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is sent to a machine."""

    plan: Plan
    options: RunOptions
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The model's folder without its weights, where it lies on the asking machine."""


def job_of(plan: Plan, options: RunOptions) -> bytes:
    """Pack a plan for another machine.

    Raises:
        PlannerError: where its model's folder is too large to be sent.
    """
    files = _files(plan.name) if options.weights == "dummy" else {}
    return pickle.dumps(Job(plan=plan, options=options, files=files))


def confirm_here(payload: bytes, tell: Tell) -> dict[str, Any]:
    """Confirm what was packed, on this machine; return plain values and bytes."""
    job: Job = pickle.loads(payload)
    machine = os.uname().nodename
    tell({"stage": str(StartStage.CHECKING), "machine": machine, "pid": os.getpid()})
    _forget_rays_threads()
    folder = None
    try:
        plan = job.plan
        if job.files and not Path(plan.name).expanduser().is_dir():
            folder = Path(tempfile.mkdtemp(prefix="planner-model-"))
            plan = replace(plan, name=str(_unpacked(job.files, folder, plan.name)))
        return _confirmed(plan, job.options, tell) | {"machine": machine}
    except PlannerError as error:
        return {"problem": f"{machine}: {error}", "machine": machine}
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _confirmed(plan: Plan, options: RunOptions, tell: Tell) -> dict[str, Any]:
    kept: list[tuple[Measurement, int | None]] = []

    def keep(measurement: Measurement, moved_bytes: int | None) -> str | None:
        kept.append((measurement, moved_bytes))
        return None

    confirmation = Run(plan, options, _Teller(tell), keep).execute()
    log = zlib.compress(confirmation.log_text.encode())
    return {
        "outcome": str(confirmation.outcome),
        "figures": json.dumps(confirmation_dict(confirmation), default=str),
        "log": log.hex(),
        "kept": pickle.dumps(kept[0]).hex() if kept else None,
    }


class _Teller:
    """Tells the asking machine of events, not more than one in a second."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._lines: list[str] = []
        self._stage: StartStage | None = None
        self._last = 0.0

    def __call__(self, event: Event) -> None:
        """Take an event; lines wait for the next that is told."""
        self._lines += event.lines
        now = time.monotonic()
        if event.stage is self._stage and now - self._last < _EVENT_SECONDS:
            return
        self._tell(
            {
                "stage": str(event.stage),
                "fraction": event.fraction,
                "lines": self._lines[-_MOST_LINES:],
                "seconds": event.seconds,
                "reached": [str(stage) for stage in event.reached],
                "machine": os.uname().nodename,
            }
        )
        self._stage, self._last, self._lines = event.stage, now, []


def _files(name: str) -> dict[str, bytes]:
    """Return the files of a local model that a start without weights reads."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return {}
    found: dict[str, bytes] = {}
    left = _MOST_BYTES
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.suffix in _WEIGHTS:
            continue
        left -= path.stat().st_size
        if left < 0:
            raise PlannerError(
                f"{folder} holds more than {_MOST_BYTES >> 20} MiB beside its weights, "
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


def _forget_rays_threads() -> None:
    """Leave vLLM's threads to vLLM: Ray sets their number to the task's CPUs.

    What the machine's owner has set was there when the process began, and stays.
    Source: Ray 2.60.0 `_private/utils.py` set_omp_num_threads_if_unset.
    """
    try:
        began = Path("/proc/self/environ").read_bytes()
    except OSError:
        return
    if b"OMP_NUM_THREADS=" not in began:
        os.environ.pop("OMP_NUM_THREADS", None)
