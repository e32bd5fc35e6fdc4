"""A lesson: its words in a file, and their figures in the module beside it.

`lessons/weights.toml` has what lesson 2 says: titles, hints, choices, the reply to each
plausible mistake. `lessons/weights.py` has `figures`, which computes every figure that
the words name, and `MADE`, the exercises whose answer is a plan or a pipeline.

In an exercise of the file, each table is a part of its answer: `size` or `number` names
the figure that is right, `choice` is the letter that is. `mistakes` has a reply for
each figure of a forgotten step. In braces stands a figure, such as {weights:GiB}.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from string import Formatter
from typing import Any

from planner.learn.display import Shown
from planner.learn.exercise import Exercise
from planner.learn.explanation import OpenQuestion
from planner.learn.parts import Choice, MadePart, Mistake, Number, Part, Size
from planner.units import format_gib, format_size
from planner.values import frozen

_FORMATS: Mapping[str, Callable[[int], str]] = {"GiB": format_gib, "size": format_size}
"""How a figure may be written, beside Python's own ways."""
_KINDS: Mapping[str, type[Size | Number]] = {"size": Size, "number": Number}
_OF_EXERCISES = ("title", "minutes", "hints")


@frozen
class Lesson:
    """What a lesson asks and answers."""

    exercises: tuple[Exercise, ...]
    slips: tuple[Mistake, ...]
    """Figures of the prediction that a forgotten step gives."""
    question: OpenQuestion


@cache
def lesson(name: str) -> Lesson:
    """Return the lesson of a module of `planner.learn.lessons`."""
    path = Path(__file__).parent / "lessons" / f"{name}.toml"
    words = tomllib.loads(path.read_text(encoding="utf-8"))
    computed = _Computed(name)
    question, slips = words.pop("question"), words.pop("slips")
    return Lesson(
        exercises=tuple(computed.exercise(*one) for one in words.items()),
        slips=computed.mistakes(slips),
        question=OpenQuestion(
            asked=question["asked"],
            expert=partial(computed.written, question["expert"]),
            points=tuple(question["points"]),
        ),
    )


def figures(name: str) -> Mapping[str, Any]:
    """Return the figures of a lesson by name; sizes are whole bytes."""
    found: Mapping[str, Any] = _module(name).figures()
    return found


def _module(name: str) -> Any:  # noqa: ANN401 - modules have no type of their own
    return import_module(f".lessons.{name}", __package__)


class _Words(Formatter):
    """Writes figures into a text."""

    def format_field(self, value: Any, spec: str) -> str:  # noqa: ANN401 - any figure
        """Write a figure as a size, or as Python does."""
        written = _FORMATS.get(spec)
        return written(value) if written else str(super().format_field(value, spec))


class _Computed:
    """The words of a lesson with its figures, computed once, when they are needed."""

    def __init__(self, name: str) -> None:
        self._figures = cache(partial(figures, name))
        self._made: Mapping[str, MadePart] = _module(name).MADE

    def figure(self, name: str) -> Any:  # noqa: ANN401 - as `figures` has it
        return self._figures()[name]

    def written(self, text: str) -> str:
        return _Words().vformat(text, (), self._figures())

    def mistakes(self, replies: Mapping[str, str]) -> tuple[Mistake, ...]:
        return tuple(
            Mistake(partial(self.figure, name), says) for name, says in replies.items()
        )

    def exercise(self, name: str, told: Mapping[str, Any]) -> Exercise:
        tables = {key: one for key, one in told.items() if isinstance(one, dict)}
        parts = [self._part(key, one, tables) for key, one in tables.items()]
        return Exercise(
            name=name,
            parts=tuple(parts) or (self._made[name],),
            solved=partial(self._solved, told, parts),
            **{key: told[key] for key in _OF_EXERCISES if key in told},
        )

    def _part(
        self, name: str, told: Mapping[str, Any], others: Mapping[str, Any]
    ) -> Part:
        if "choice" in told:
            options = told["options"]  # of its own, or the name of the part with them
            return _choice(
                name,
                told["choice"],
                others[options]["options"] if isinstance(options, str) else options,
            )
        settings = dict(told)
        mistakes = self.mistakes(settings.pop("mistakes"))
        (kind,) = _KINDS.keys() & settings.keys()
        expected = partial(self.figure, settings.pop(kind))
        return _KINDS[kind](name=name, expected=expected, mistakes=mistakes, **settings)

    def _solved(self, told: Mapping[str, Any], parts: list[Part]) -> Shown:
        letters = ", ".join(one.expected for one in parts if isinstance(one, Choice))
        return Shown(
            title=told.get("shown", f"Solution: {letters}" if letters else "Solution"),
            text=self.written(told["solution"]),
            code=self.written(told.get("code", "")),
        )


def _choice(name: str, right: str, options: Mapping[str, list[str]]) -> Choice:
    """Return the part of lettered statements, each with the reply to it."""
    return Choice(
        name=name,
        options={letter: words[0] for letter, words in options.items()},
        expected=right,
        says={letter: words[1] for letter, words in options.items() if words[1:]},
    )
