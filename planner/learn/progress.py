"""What a learner has done, kept over a restart of the kernel, on this machine alone."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from planner.calibrations.folder import data_folder
from planner.learn.judgement import State

_FILE = "workshop.json"
_ORDER = (State.NOT_ATTEMPTED, State.NOT_YET, State.RIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Exercises with the best that was said of them, and predictions as written."""

    exercises: dict[str, State]
    predictions: dict[str, str]


def kept() -> Kept:
    """Return what was kept; nothing where there is no file or it cannot be read."""
    path = _path()
    if path is None:
        return Kept(exercises={}, predictions={})
    try:
        return _read(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return Kept(exercises={}, predictions={})


def keep(exercise: str, state: State) -> None:
    """Keep how an exercise stands; what was right once stays right."""
    now = kept()
    best = max((now.exercises.get(exercise, state), state), key=_ORDER.index)
    _write(
        Kept(exercises={**now.exercises, exercise: best}, predictions=now.predictions)
    )


def keep_prediction(name: str, written: str) -> None:
    """Keep a prediction as it was written."""
    now = kept()
    _write(
        Kept(exercises=now.exercises, predictions={**now.predictions, name: written})
    )


def forget() -> None:
    """Forget everything: the workshop begins anew."""
    path = _path()
    if path is not None:
        path.unlink(missing_ok=True)


def _path() -> Path | None:
    folder = data_folder()
    return None if folder is None else Path(folder) / _FILE


def _read(told: dict[str, dict[str, str]]) -> Kept:
    return Kept(
        exercises={name: State(said) for name, said in told["exercises"].items()},
        predictions={name: str(said) for name, said in told["predictions"].items()},
    )


def _write(value: Kept) -> None:
    """Replace the file in one step; a full or read-only disk keeps nobody waiting."""
    path = _path()
    if path is None:
        return
    told = {"exercises": value.exercises, "predictions": value.predictions}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # One name for each process: two notebooks may write at the same moment.
        beside = path.with_name(f"{_FILE}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(told), encoding="utf-8")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
