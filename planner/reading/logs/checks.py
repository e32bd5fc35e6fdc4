"""vLLM's checks of memory, the stages of a start, and what each failure means.

The signs, sentences, hints and answers are rows of `planner/data/failed_checks.json`.

Source: vLLM 0.33.0 `v1/engine/core.py` EngineCore (the order of the stages),
`v1/worker/gpu_worker.py` Worker; Docker 28, Kubernetes 1.34 and Ray 2 for what is
around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import cache
from typing import Any

from planner.data import DATA
from planner.values import frozen


class Check(StrEnum):
    """What stopped a start, or a running engine."""

    FREE_MEMORY = "free memory"
    NO_KV = "no KV cache"
    MAX_MODEL_LEN = "max_model_len"
    TOO_LONG = "max_model_len refused"
    MAMBA = "Mamba cache blocks"
    GRAPHS = "CUDA graphs"
    WARM_UP = "warm-up"
    ALLOCATION = "allocation"
    CUDA = "CUDA out of memory"
    NEIGHBOUR = "another program on the GPU"
    NCCL = "NCCL"
    GPUS = "GPUs"
    PLACEMENT = "Ray placement"
    KILLED = "killed"
    OTHER = "other"


class StartStage(StrEnum):
    """How far a start came."""

    BEFORE = "before anything is loaded"
    LOADING = "while the weights are loaded"
    PROFILE = "in the profile run"
    SIZING = "when the KV cache is sized, after the profile run"
    CAPTURE = "after the KV cache was allocated: graph capture and warm-up"
    SERVING = "while it served requests"
    UNKNOWN = "at a stage that the text does not tell"


@frozen
class Failure:
    """Why a start, or a running engine, stopped."""

    check: Check
    stage: StartStage
    sentence: str
    """Which check failed, in one sentence."""
    arithmetic: tuple[str, ...] = ()
    """The check with the text's own figures."""
    others: tuple[str, ...] = ()
    """What else was on the GPU."""
    hints: tuple[str, ...] = ()
    """What to do that is no flag of vLLM."""
    missing_bytes: int | None = None
    """How much memory was short; None if the text does not tell."""


@frozen
class Row:
    """What is known of one check."""

    check: Check
    sentence: str
    sign: str = ""
    """What its error says: the first row whose sign the error has names the check."""
    phase: str = ""
    """Functions in the traceback of an allocation that failed in it."""
    stage: StartStage | None = None
    """Of checks that vLLM makes at one stage only."""
    hints: Sequence[str] = ()
    figures: Mapping[str, str] = field(default_factory=dict)
    """Numbers of its error, by patterns."""
    arithmetic: str = ""
    """A sentence with these numbers."""

    def numbers_in(self, error: str) -> dict[str, int]:
        """Return the numbers of an error; none where one of them is missing."""
        found = {name: re.search(sign, error) for name, sign in self.figures.items()}
        numbers = {name: int(match[1]) for name, match in found.items() if match}
        return numbers if len(numbers) == len(found) else {}


@cache
def check_table() -> Mapping[Check, Row]:
    """Return what is known of each check, in the order in which signs are searched."""
    rows = (
        Row(**{**row, "check": Check(row["check"]), "stage": _stage(row)})
        for row in _tables()["checks"]
    )
    return {row.check: row for row in rows}


def _stage(row: Mapping[str, Any]) -> StartStage | None:
    return StartStage(row["stage"]) if "stage" in row else None


def answer_table() -> Mapping[str, Mapping[str, str]]:
    """Return the changes that answer a check: argument, title, cost and burden."""
    answers: Mapping[str, Mapping[str, str]] = _tables()["answers"]
    return answers


@cache
def _tables() -> Any:  # noqa: ANN401 - any JSON
    return json.loads((DATA / "failed_checks.json").read_text(encoding="utf-8"))
