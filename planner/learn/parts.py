"""The parts of an answer, how each is judged, and the conditions on a learner's plan.

A part is a size, a number, a choice, or a plan or pipeline that the learner made. It is
judged as right, not yet right, or not attempted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from planner.learn.quantity import (
    OTHER_UNIT,
    Quantity,
    is_untouched,
    number_readings,
    size_readings,
)
from planner.planning.result import Plan
from planner.values import frozen

_CLOSE = 0.02
"""Tolerance of a figure read off a chart or worked out by hand, as a share."""


class AnswerState(StrEnum):
    """The state of an answer."""

    RIGHT = "right"
    NOT_YET = "not yet"
    NOT_ATTEMPTED = "not attempted"


@frozen
class Judgement:
    """The state of one part of an answer, and a remark that helps the learner."""

    state: AnswerState
    remark: str = ""


NOT_ATTEMPTED = Judgement(state=AnswerState.NOT_ATTEMPTED)


def right(remark: str = "") -> Judgement:
    """Return the judgement of a right answer."""
    return Judgement(state=AnswerState.RIGHT, remark=remark)


def not_yet(remark: str) -> Judgement:
    """Return the judgement of a wrong answer, with a remark that helps."""
    return Judgement(state=AnswerState.NOT_YET, remark=remark)


def together(states: list[AnswerState]) -> AnswerState:
    """Return the state of a whole answer: right when every part is.

    >>> together([AnswerState.RIGHT, AnswerState.NOT_ATTEMPTED]).value
    'not yet'
    """
    for state in (AnswerState.RIGHT, AnswerState.NOT_ATTEMPTED):
        if all(one is state for one in states):
            return state
    return AnswerState.NOT_YET


@frozen(kw_only=False)
class Mistake:
    """A plausible wrong answer, and the reply to it."""

    value: Callable[[], float]
    says: str
    """A reply that helps without giving the answer away."""


@frozen
class Size:
    """A size: bytes, or a number in any unit, with or without its name."""

    name: str
    expected: Callable[[], int]
    """In whole bytes, as the planner computes them."""
    mistakes: tuple[Mistake, ...] = ()
    tolerance: float = _CLOSE
    needs_its_unit: bool = False
    """Whether a number with the wrong unit is wrong: where units are the lesson."""
    is_difference: bool = False
    """Whether a sign does not matter."""

    def judge(self, answer: object) -> Judgement:
        """Judge a size, and name the unit that was meant."""
        if is_untouched(answer):
            return NOT_ATTEMPTED
        readings = tuple(size_readings(answer))
        if not readings:
            return not_yet(
                f"{answer!r} was not understood as a size. Write a number with GiB, "
                "GB, MiB, KiB or bytes, such as '3.5 GiB'."
            )
        if self.is_difference:
            readings = tuple(replace(one, value=abs(one.value)) for one in readings)
        judged = _judged(readings, self.expected(), self.tolerance, self.mistakes)
        if self.needs_its_unit and judged.remark.startswith(OTHER_UNIT):
            return not_yet(f"{judged.remark} Here the two differ by too much.")
        return judged


@frozen
class Number:
    """A count or a ratio; counts are exact unless a tolerance is given."""

    name: str
    expected: Callable[[], float]
    mistakes: tuple[Mistake, ...] = ()
    tolerance: float = 0.0
    may_be_whole: bool = False
    """Whether the whole number below a ratio is right as well."""

    def judge(self, answer: object) -> Judgement:
        """Judge a number."""
        if is_untouched(answer):
            return NOT_ATTEMPTED
        readings = tuple(number_readings(answer))
        if not readings:
            return not_yet(f"{answer!r} was not understood as a number.")
        expected = self.expected()
        if self.may_be_whole and readings[0].value == int(expected):
            return right(f"Whole ones; the plan writes {expected:,.2f}.")
        return _judged(readings, expected, self.tolerance, self.mistakes)


@frozen
class Choice:
    """One of several statements, given by its letter."""

    name: str
    options: Mapping[str, str]
    expected: str
    says: Mapping[str, str] = field(default_factory=dict)
    """The reply to each wrong letter."""

    def judge(self, answer: object) -> Judgement:
        """Judge a choice; capitals, brackets and blanks do not matter."""
        if is_untouched(answer):
            return NOT_ATTEMPTED
        letter = str(answer).strip().strip("().").lower()
        if letter == self.expected:
            return right()
        if letter not in self.options:
            return not_yet(
                f"{answer!r} is not one of the letters {', '.join(self.options)}."
            )
        return not_yet(self.says.get(letter, "It is another one. Read them again."))


@frozen
class Condition:
    """A condition on a learner's plan."""

    text: str
    """The end of the sentence "The plan has to ..."."""
    is_met: Callable[[Any], bool]
    yours: Callable[[Any], str] = lambda _made: ""
    """The end of the sentence "Yours ..." about a plan that does not meet it."""


@frozen
class MadePart:
    """A plan or a pipeline made by the learner, which has to meet conditions."""

    name: str
    kind: type | Callable[[], type]
    """The required type, or a function that imports it late."""
    conditions: tuple[Condition, ...]
    example: Callable[[], Any]
    """One of many right answers."""
    how: str
    """How such a value is made, for learners who gave something else."""

    def judge(self, answer: object) -> Judgement:
        """Name the conditions that are not met; any answer that meets all is right."""
        if is_untouched(answer):
            return NOT_ATTEMPTED
        kind = self.kind if isinstance(self.kind, type) else self.kind()
        if not isinstance(answer, kind):
            return not_yet(f"{answer!r} is not a {kind.__name__}. {self.how}")
        unmet = [one for one in self.conditions if not one.is_met(answer)]
        if not unmet:
            return right()
        has_to = " and ".join(one.text for one in unmet)
        yours = "".join(f" Yours {has}." for one in unmet if (has := one.yours(answer)))
        return not_yet(f"The {self.name} has to {has_to}.{yours}")


Part = Size | Number | Choice | MadePart


def _judged(
    readings: tuple[Quantity, ...],
    expected: float,
    tolerance: float,
    mistakes: Iterable[Mistake],
) -> Judgement:
    replies = [(mistake.value(), mistake.says) for mistake in mistakes]
    # Reading by reading: the whole card in GiB must not pass as the share in GB.
    # A mistake has a smaller tolerance, so that it does not hide a right figure in GB.
    for reading in readings:
        if _is_close(reading.value, expected, tolerance):
            return right(reading.remark)
        for value, says in replies:
            if _is_close(reading.value, value, tolerance / 2):
                return not_yet(says)
        if reading.rounds(expected):
            return not_yet("Near it, but rounded too far: write one more digit.")
    # As it is on the screen: 0.16 GiB of 162.1 MiB is rounded by more than that.
    as_written = [one for one in readings if not one.remark.startswith(OTHER_UNIT)]
    for value, says in replies:
        if any(_is_close(one.value, value, tolerance) for one in as_written):
            return not_yet(says)
    return not_yet("That is not the figure. Try a hint.")


def _is_close(value: float, expected: float, tolerance: float) -> bool:
    return abs(value - expected) <= tolerance * abs(expected) + 1e-9


_HOW = 'Make one with planner.plan("Qwen/Qwen3-8B", gpu="L4", ...).'
_NUMBERS = {1: "one", 2: "two", 4: "four"}
_TOO_CLOSE = "Too close to call"


def made_plan(
    *conditions: Condition, example: Callable[[], Plan], how: str = _HOW
) -> MadePart:
    """Return the part that requires a plan which starts and meets `conditions`."""
    starts = Condition(
        text="start", is_met=lambda plan: bool(plan.fits), yours=_stopped_by
    )
    return MadePart(
        name="plan",
        kind=Plan,
        conditions=(*conditions, starts),
        example=example,
        how=how,
    )


def _stopped_by(plan: Plan) -> str:
    """Quote the first sentence of the error, or say that it is too close to call."""
    said = "" if plan.error is None else plan.error.message.strip()
    first = said.split(". ")[0].splitlines()[0].rstrip(".") if said else _TOO_CLOSE
    if first.startswith(_TOO_CLOSE):
        return f"is {first[0].lower()}{first[1:]}"
    return f"does not start: {first}"


def of_model(name: str) -> Condition:
    """Require a model."""
    return Condition(
        text=f"be for {name}",
        is_met=lambda plan: plan.name.lower() == name.lower(),
        yours=lambda plan: f"is for {plan.name}",
    )


def on_cards(gpu: str, most: int = 1) -> Condition:
    """Require a kind of GPU, and at most `most` of them."""
    several = f"at most {_NUMBERS[most]}" if most > 1 else "one"
    return Condition(
        text=f"run on {several} {gpu}",
        is_met=lambda plan: plan.gpu.name == gpu and plan.gpus_total <= most,
        yours=lambda plan: f"takes {plan.gpus_total} x {plan.gpu.name}",
    )


def takes(tokens: int) -> Condition:
    """Require that requests may have `tokens` tokens."""
    return Condition(
        text=f"take requests of {tokens:,} tokens",
        is_met=lambda plan: _longest(plan) >= tokens,
        yours=lambda plan: f"takes {_longest(plan):,} at most",
    )


def _longest(plan: Plan) -> int:
    return 0 if plan.resolved is None else plan.resolved.max_model_len


def holds(requests: int, tokens: int) -> Condition:
    """Require room in the KV cache for `requests` requests of `tokens` tokens."""
    times = f"{requests} x " if requests > 1 else ""
    return Condition(
        text=f"have a KV cache of {times}{tokens:,} tokens",
        is_met=lambda plan: plan.kv_cache_size_tokens >= requests * tokens,
        yours=lambda plan: (
            f"holds {plan.kv_cache_size_tokens:,} tokens; {requests * tokens:,} are "
            "needed"
        ),
    )


def keeps(setting: str, value: Any, text: str) -> Condition:  # noqa: ANN401 - vLLM's
    """Require that a setting keeps its value, given or by default."""
    return Condition(
        text=text,
        is_met=lambda plan: getattr(plan.settings, setting, None) in (None, value),
        yours=lambda plan: f"has {setting}={getattr(plan.settings, setting)}",
    )
