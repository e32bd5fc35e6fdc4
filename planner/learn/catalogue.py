"""Every exercise of the workshop, found by its name."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from importlib import import_module

from planner.errors import PlannerError
from planner.learn.checkpoints import LESSONS, lesson_name
from planner.learn.exercise import Exercise
from planner.learn.judgement import State
from planner.learn.progress import kept
from planner.learn.showing import Spoken, boxed, symbol


def exercises(lesson: int | str | None = None) -> tuple[Exercise, ...]:
    """Return the exercises of a lesson, or of all, in their order.

    Args:
        lesson: its number, 1 to 6, or its name; None for all.

    Raises:
        PlannerError: when there is no such lesson.
    """
    names = LESSONS if lesson is None else (lesson_name(lesson),)
    modules = (import_module(f"planner.learn.lessons.{name}") for name in names)
    return tuple(one for module in modules for one in module.EXERCISES)


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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Progress(Spoken):
    """How each exercise stands."""

    rows: tuple[tuple[Exercise, State], ...]

    def __str__(self) -> str:
        lines = [
            f"{symbol(state)} {one.name} {one.title}: {state}"
            for one, state in self.rows
        ]
        return "\n".join([self._head, *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope='row'>{escape(one.name)} {escape(one.title)}</th>"
            f"<td>{symbol(state)} {state.value}</td></tr>"
            for one, state in self.rows
        )
        return boxed(
            f"<table class='pl-lines'><caption>{escape(self._head)}</caption>"
            "<thead><tr><th scope='col'>Exercise</th><th scope='col'>So far</th></tr>"
            f"</thead><tbody>{rows}</tbody></table>"
        )

    @property
    def _head(self) -> str:
        done = sum(state is State.RIGHT for _, state in self.rows)
        return f"{done} of {len(self.rows)} exercises right"


def progress(lesson: int | str | None = None) -> Progress:
    """Return how each exercise stands; it is kept on this machine alone.

    Args:
        lesson: its number, 1 to 6, or its name; None for all.

    Raises:
        PlannerError: when there is no such lesson.
    """
    said = kept().exercises
    return Progress(
        rows=tuple(
            (one, said.get(one.name, State.NOT_ATTEMPTED)) for one in exercises(lesson)
        )
    )
