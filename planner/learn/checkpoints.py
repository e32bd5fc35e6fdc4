"""The plan that each lesson starts from, so that who comes late can join."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import PlannerError
from planner.learn.recorded import recorded
from planner.planning import plan
from planner.result import Plan

LESSONS = (
    "where_memory_goes",
    "weights",
    "kv_cache",
    "rest_of_the_budget",
    "confirm",
    "capacity_plan",
)
"""The modules of `planner.learn.lessons`, in the order of the workshop."""

_DESK: Mapping[str, Any] = {
    "model": "Qwen/Qwen3-8B",
    "gpu": "L4",
    "max_model_len": 8192,
}
"""The library's help desk on its first day."""
_STARTS: Mapping[str, Mapping[str, Any]] = {
    "where_memory_goes": _DESK,
    "weights": _DESK,
    "kv_cache": _DESK,
    "rest_of_the_budget": _DESK,
    "capacity_plan": {**_DESK, "quantization": "fp8", "kv_cache_dtype": "fp8"},
}


def checkpoint(lesson: int | str) -> Plan:
    """Return the plan that a lesson starts from, such as `checkpoint(2)`.

    Args:
        lesson: its number, 1 to 6, or the name of its module, such as "weights".

    Raises:
        PlannerError: when there is no such lesson.
    """
    name = lesson_name(lesson)
    if name == "confirm":
        return recorded().plan
    return plan(**_STARTS[name])


def lesson_name(lesson: int | str) -> str:
    """Return the name of a lesson's module.

    >>> lesson_name(2)
    'weights'

    Raises:
        PlannerError: when there is no such lesson.
    """
    numbered = {str(number): name for number, name in enumerate(LESSONS, start=1)}
    found = numbered.get(str(lesson), str(lesson))
    if found not in LESSONS:
        raise PlannerError(
            f"There is no lesson {lesson!r}. There are 1 to {len(LESSONS)}: "
            f"{', '.join(LESSONS)}."
        )
    return found
