"""What a check says: right, not yet, or not attempted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How an answer stands."""

    RIGHT = "right"
    NOT_YET = "not yet"
    NOT_ATTEMPTED = "not attempted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How one part of an answer stands, and what helps its writer on."""

    state: State
    remark: str = ""


NOT_ATTEMPTED = Judgement(state=State.NOT_ATTEMPTED)


def right(remark: str = "") -> Judgement:
    """Return the judgement of a right answer."""
    return Judgement(state=State.RIGHT, remark=remark)


def not_yet(remark: str) -> Judgement:
    """Return the judgement of an answer that is off, with what helps on."""
    return Judgement(state=State.NOT_YET, remark=remark)


def together(states: list[State]) -> State:
    """Return how a whole answer stands: right when every part is.

    >>> together([State.RIGHT, State.NOT_ATTEMPTED]).value
    'not yet'
    """
    for state in (State.RIGHT, State.NOT_ATTEMPTED):
        if all(one is state for one in states):
            return state
    return State.NOT_YET
