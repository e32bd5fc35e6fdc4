"""Sizes of the KV cache that vLLM itself wrote down for its next start.

With VLLM_ENABLE_STARTUP_PLAN=1 each worker writes one file, and applies it later where
everything that the size depends on is the same and as much memory is free. Which start
a file belongs to is a digest that only vLLM can compute, so the user says it.

Source: vLLM 0.26.0 and 0.33.0 `v1/worker/startup_plan.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner.errors import PlannerError
from planner.planning.calibrations.reading import json_of
from planner.planning.calibrations.record import NotARecord
from planner.user_files import read_file
from planner.values import frozen

_SCHEMA = 1
_FOLDER = "startup_plan"
_PATTERN = "startup_plan_*.json"
_MOST_BYTES = 1 << 16


@frozen
class StartupPlan:
    """What one worker wrote down."""

    path: str
    kv_cache_memory_bytes: int
    """The KV cache of its next start: `--kv-cache-memory-bytes`."""
    free_memory_bytes: int
    """With less than this free, vLLM measures again."""


def read_startup_plans(path: Path) -> tuple[StartupPlan, ...]:
    """Read a file, or all files of a folder: VLLM_CACHE_ROOT or what is in it.

    Raises:
        PlannerError: when there is none, or one that vLLM would not apply.
    """
    if not path.is_dir():
        return (_read(path),)
    found = sorted(path.glob(_PATTERN)) or sorted((path / _FOLDER).glob(_PATTERN))
    if not found:
        raise PlannerError(
            f"{path} holds no {_PATTERN}: vLLM 0.26 and later write them with "
            "VLLM_ENABLE_STARTUP_PLAN=1 into startup_plan/ of VLLM_CACHE_ROOT "
            "(~/.cache/vllm)."
        )
    return tuple(map(_read, found))


def _read(path: Path) -> StartupPlan:
    try:
        held: Any = json_of(read_file(path, _MOST_BYTES), _MOST_BYTES)
    except NotARecord as reason:
        raise PlannerError(f"{path} is not vLLM's startup plan: {reason}.") from None
    if not isinstance(held, dict) or held.get("schema") != _SCHEMA:
        raise PlannerError(f"{path} is not vLLM's startup plan of schema {_SCHEMA}.")
    return StartupPlan(
        path=str(path),
        kv_cache_memory_bytes=_size(held, "kv_cache_memory_bytes", path),
        free_memory_bytes=_size(held, "free_memory_baseline", path),
    )


def _size(held: dict[str, Any], name: str, path: Path) -> int:
    size = held.get(name)
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        raise PlannerError(
            f"{path}: {name} is a whole number of bytes in a startup plan that vLLM "
            "applies."
        )
    return size
