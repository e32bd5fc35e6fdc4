"""Kinds of answers: a size, a number, a choice, a plan of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.learn.judgement import NOT_ATTEMPTED, Judgement, not_yet, right
from planner.learn.quantity import (
    Reading,
    is_untouched,
    number_reading,
    size_readings,
)

_CLOSE = 0.02
"""How far a figure read off a chart or worked out by hand may lie off, as a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A plausible wrong answer, and the thought behind it."""

    value: Callable[[], float]
    says: str
    """What helps on; it does not give the answer away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A size: bytes, or a number in any unit, with or without its name."""

    name: str
    expected: Callable[[], int]
    """Whole bytes, as the planner computes them."""
    mistakes: tuple[Mistake, ...] = ()
    tolerance: float = _CLOSE

    def judge(self, answer: object) -> Judgement:
        """Say how a size stands, and which unit was meant."""
        if is_untouched(answer):
            return NOT_ATTEMPTED
        readings = tuple(size_readings(answer))
        if not readings:
            return not_yet(
                f"{answer!r} was not understood as a size. Write a number with GiB, "
                "GB, MiB, KiB or bytes, such as '3.5 GiB'."
            )
        return _judged(readings, self.expected(), self.tolerance, self.mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A count or a ratio; counts are exact unless a tolerance is given."""

    name: str
    expected: Callable[[], float]
    mistakes: tuple[Mistake, ...] = ()
    tolerance: float = 0.0

    def judge(self, answer: object) -> Judgement:
        """Say how a number stands."""
        if is_untouched(answer):
            return NOT_ATTEMPTED
        reading = number_reading(answer)
        if reading is None:
            return not_yet(f"{answer!r} was not understood as a number.")
        return _judged((reading,), self.expected(), self.tolerance, self.mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several statements, told by its letter."""

    name: str
    options: Mapping[str, str]
    expected: str
    says: Mapping[str, str] = field(default_factory=dict)
    """For a wrong letter: what helps on."""

    def judge(self, answer: object) -> Judgement:
        """Say how a choice stands; capitals, brackets and blanks do not matter."""
        if is_untouched(answer):
            return NOT_ATTEMPTED
        letter = str(answer).strip().strip("().").lower()
        if letter == self.expected:
            return right()
        if letter not in self.options:
            return not_yet(
                f"{answer!r} is none of the letters {', '.join(self.options)}."
            )
        return not_yet(self.says.get(letter, "Another one. Read them again."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a learner's own plan has to do."""

    text: str
    """As it ends the sentence "The plan has to ..."."""
    is_met: Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Something made by the learner: a plan, or a pipeline, that has to do its work."""

    name: str
    kind: type | Callable[[], type]
    """What it has to be; a function where its import is to wait."""
    conditions: tuple[Condition, ...]
    example: Callable[[], Any]
    """One of many that do it."""
    how: str
    """How such a thing is made, for who gave something else."""

    def judge(self, answer: object) -> Judgement:
        """Say which conditions are not met; all are right, however they are met."""
        if is_untouched(answer):
            return NOT_ATTEMPTED
        kind = self.kind if isinstance(self.kind, type) else self.kind()
        if not isinstance(answer, kind):
            return not_yet(f"{answer!r} is no {kind.__name__}. {self.how}")
        unmet = [one.text for one in self.conditions if not one.is_met(answer)]
        if not unmet:
            return right()
        return not_yet(f"The {self.name} has to {' and '.join(unmet)}.")


Part = Size | Number | Choice | Made


def _judged(
    readings: tuple[Reading, ...],
    expected: float,
    tolerance: float,
    mistakes: Iterable[Mistake],
) -> Judgement:
    thoughts = [(mistake.value(), mistake.says) for mistake in mistakes]
    # Reading by reading: who wrote the whole card in GiB did not mean the share in GB.
    # A mistake has to be met more closely: it must not hide a right figure in GB.
    for reading in readings:
        if _is_close(reading.value, expected, tolerance):
            return right(reading.remark)
        for value, says in thoughts:
            if _is_close(reading.value, value, tolerance / 2):
                return not_yet(says)
    return not_yet("Not this figure. Ask for a hint.")


def _is_close(value: float, expected: float, tolerance: float) -> bool:
    return abs(value - expected) <= tolerance * abs(expected) + 1e-9
