"""Every exercise of the workshop by name, and the plan that each lesson starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import PlannerError
from planner.learn.account import recorded
from planner.learn.display import ShownAsText, symbol
from planner.learn.exercise import Exercise
from planner.learn.explanation import Explained, OpenQuestion, explained
from planner.learn.lesson import lesson as read_lesson
from planner.learn.parts import AnswerState, Mistake
from planner.learn.progress import kept
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.show.document import whole
from planner.show.html import tag
from planner.show.pieces import row, table
from planner.values import frozen

LESSONS = (
    "where_memory_goes",
    "weights",
    "kv_cache",
    "rest_of_the_budget",
    "confirm",
    "capacity_plan",
    "at_night",
)
"""The modules of `planner.learn.lessons`, in the order of the workshop."""

_DESK: Mapping[str, Any] = {
    "model": "Qwen/Qwen3-8B",
    "gpu": "L4",
    "max_model_len": 8192,
}
"""The library's help desk on its first day."""
_CITY: Mapping[str, Any] = {**_DESK, "quantization": "fp8", "kv_cache_dtype": "fp8"}
"""The desk after lessons 2 and 3."""
_STARTS: Mapping[str, Mapping[str, Any]] = {
    "where_memory_goes": _DESK,
    "weights": _DESK,
    "kv_cache": _DESK,
    "rest_of_the_budget": _DESK,
    "capacity_plan": _CITY,
    "at_night": {**_CITY, "tensor_parallel_size": 2, "entrypoint": "engine"},
}


def checkpoint(lesson: int | str) -> Plan:
    """Return the plan that a lesson starts from, such as `checkpoint(2)`.

    Args:
        lesson: its number, 1 to 7, or the name of its module, such as "weights".

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


def exercises(lesson: int | str | None = None) -> tuple[Exercise, ...]:
    """Return the exercises of a lesson, or of all, in their order.

    Args:
        lesson: its number, 1 to 7, or its name; None for all.

    Raises:
        PlannerError: when there is no such lesson.
    """
    names = LESSONS if lesson is None else (lesson_name(lesson),)
    return tuple(one for name in names for one in read_lesson(name).exercises)


def slips(lesson: int | str) -> tuple[Mistake, ...]:
    """Return figures that a forgotten step gives a lesson's prediction.

    Raises:
        PlannerError: when there is no such lesson.
    """
    return read_lesson(lesson_name(lesson)).slips


def question(lesson: int | str) -> OpenQuestion:
    """Return what a lesson asks to be explained in words.

    Raises:
        PlannerError: when there is no such lesson.
    """
    return read_lesson(lesson_name(lesson)).question


def explain(lesson: int | str, words: object) -> Explained:
    """Keep an explanation in words, and show an expert's beside it.

    Args:
        lesson: its number, 1 to 7, or its name.
        words: the explanation; `...` while there is none.

    Raises:
        PlannerError: when there is no such lesson.
    """
    name = lesson_name(lesson)
    return explained(f"{name}, explained", question(name), words)


def exercise(name: str) -> Exercise:
    """Return one exercise, such as `exercise("2.1")`.

    Raises:
        PlannerError: when no exercise has this name.
    """
    known = {one.name: one for one in exercises()}
    if name not in known:
        raise PlannerError(
            f"There is no exercise {name!r}. There are: {', '.join(known)}."
        )
    return known[name]


@frozen(repr=False)
class Progress(ShownAsText):
    """The state of each exercise."""

    rows: tuple[tuple[Exercise, AnswerState], ...]

    def __str__(self) -> str:
        lines = [
            f"{symbol(state)} {one.name} {one.title}: {state}"
            for one, state in self.rows
        ]
        return "\n".join([self._head, *lines])

    def _repr_html_(self) -> str:
        rows = (
            row(f"{one.name} {one.title}", tag("td", f"{symbol(state)} {state}"))
            for one, state in self.rows
        )
        return whole(table(self._head, ("Exercise", "Status"), rows))

    @property
    def _head(self) -> str:
        done = sum(state is AnswerState.RIGHT for _, state in self.rows)
        return f"{done} of {len(self.rows)} exercises right"


def progress(lesson: int | str | None = None) -> Progress:
    """Return the state of each exercise, which is kept only on this machine.

    Args:
        lesson: its number, 1 to 7, or its name; None for all.

    Raises:
        PlannerError: when there is no such lesson.
    """
    states = kept().exercises
    return Progress(
        rows=tuple(
            (one, states.get(one.name, AnswerState.NOT_ATTEMPTED))
            for one in exercises(lesson)
        )
    )
