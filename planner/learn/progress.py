"""A learner's progress, kept across restarts of the kernel and only on this machine."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from planner.learn.display import Shown
from planner.learn.parts import AnswerState
from planner.surroundings import data_folder
from planner.user_files import MOST_CONFIG_BYTES, read_file
from planner.values import frozen

_FILE = "workshop.json"
_ORDER = (AnswerState.NOT_ATTEMPTED, AnswerState.NOT_YET, AnswerState.RIGHT)


@frozen
class KeptAnswers:
    """The best state of each exercise, and predictions as they were written."""

    exercises: dict[str, AnswerState]
    predictions: dict[str, str]


class Aside:
    """Progress of this kernel alone: a notebook with the solutions marks nothing."""

    def __init__(self) -> None:
        """Begin as a learner's notebook, whose progress is stored."""
        self.kept: KeptAnswers | None = None


_ASIDE = Aside()


def set_aside() -> Shown:
    """Keep what this kernel checks from now on in memory, apart from the learner's."""
    _ASIDE.kept = KeptAnswers(exercises={}, predictions={})
    return Shown(
        title="Solutions",
        text="What is checked in this notebook is not kept as your progress.",
    )


def kept() -> KeptAnswers:
    """Return the stored progress; empty where there is no readable file."""
    if _ASIDE.kept is not None:
        return _ASIDE.kept
    path = _path()
    if path is None:
        return KeptAnswers(exercises={}, predictions={})
    try:
        return _read(json.loads(read_file(path, MOST_CONFIG_BYTES)))
    except (RecursionError, ValueError, LookupError, TypeError, AttributeError):
        return KeptAnswers(exercises={}, predictions={})


def keep(exercise: str, state: AnswerState) -> None:
    """Store the state of an exercise; once right, it stays right."""
    now = kept()
    best = max((now.exercises.get(exercise, state), state), key=_ORDER.index)
    _write(
        KeptAnswers(
            exercises={**now.exercises, exercise: best}, predictions=now.predictions
        )
    )


def keep_prediction(name: str, written: str) -> None:
    """Store a prediction as it was written."""
    now = kept()
    _write(
        KeptAnswers(
            exercises=now.exercises, predictions={**now.predictions, name: written}
        )
    )


def forget() -> None:
    """Delete all progress, to start the workshop again, and store from now on."""
    _ASIDE.kept = None
    path = _path()
    if path is not None:
        path.unlink(missing_ok=True)


def _path() -> Path | None:
    folder = data_folder()
    return None if folder is None else Path(folder) / _FILE


def _read(stored: dict[str, dict[str, str]]) -> KeptAnswers:
    return KeptAnswers(
        exercises={
            name: AnswerState(text) for name, text in stored["exercises"].items()
        },
        predictions={name: str(text) for name, text in stored["predictions"].items()},
    )


def _write(value: KeptAnswers) -> None:
    """Replace the file in one step; errors of a full or read-only disk are ignored."""
    if _ASIDE.kept is not None:
        _ASIDE.kept = value
        return
    path = _path()
    if path is None:
        return
    stored = {"exercises": value.exercises, "predictions": value.predictions}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # One name for each process: two notebooks may write at the same moment.
        beside = path.with_name(f"{_FILE}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(stored), encoding="utf-8")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
