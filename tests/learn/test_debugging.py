"""Debug this start: the keyed answers are those of planner.read and planner.plan."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.errors import PlannerError
from planner.learn import debug_this_start
from planner.learn.debugging import CAUSES, count
from planner.learn.parts import AnswerState
from planner.reading.logs.explaining import Explanation

NUMBERS = range(1, count() + 1)


@pytest.fixture(scope="module")
def explanations() -> dict[int, Explanation]:
    """Return what planner.read says of each start; each takes about a second."""
    return {number: debug_this_start(number).explain() for number in NUMBERS}


def _right(number: int) -> dict[str, str]:
    return {part.name: part.expected for part in debug_this_start(number).parts}


def test_there_are_ten() -> None:
    """Two minutes each."""
    assert list(range(1, 11)) == list(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_keyed_cause_is_that_of_planner_read(
    number: int, explanations: dict[int, Explanation]
) -> None:
    """The check that failed, read from the error's own words."""
    failure = explanations[number].failure

    assert failure is not None
    assert failure.check == debug_this_start(number).cause


@pytest.mark.parametrize("number", NUMBERS)
def test_one_remedy_is_right_and_the_planner_agrees(
    number: int, explanations: dict[int, Explanation]
) -> None:
    """With it the start fits, and planner.read offers its arguments; no other fits."""
    start, explained = debug_this_start(number), explanations[number]
    offered = [set(fix.changes) for fix in explained.fixes if fix.starts]

    assert [True] == [one.is_right for one in start.remedies if one.is_right]
    for remedy in start.remedies:
        if remedy.changes is None:
            continue
        assert explained.plan is not None
        assert remedy.is_right is explained.plan.changed(**remedy.changes).fits
        if remedy.is_right:
            assert set(remedy.changes) in offered


@pytest.mark.parametrize("number", NUMBERS)
def test_the_start_is_expected_to_fail(
    number: int, explanations: dict[int, Explanation]
) -> None:
    """The planner does not call it a fit, where it can plan it."""
    made = explanations[number].plan

    assert made is None or not made.fits


def test_a_busy_gpu_is_freed_by_no_argument(
    explanations: dict[int, Explanation],
) -> None:
    """Start 2: planner.read names the memory that others hold."""
    failure = explanations[2].failure

    assert failure is not None
    assert "nvidia-smi" in " ".join(failure.others)
    assert all(one.changes is None for one in debug_this_start(2).remedies)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_right_letters_are_right_and_the_others_are_not(number: int) -> None:
    """Each wrong one has a reply; an untouched exercise was not attempted."""
    start = debug_this_start(number)

    assert start.check(**_right(number)).state is AnswerState.RIGHT
    assert start.check().state is AnswerState.NOT_ATTEMPTED
    assert f"Stuck? learn.debug_this_start({number}).explain()" in str(
        start.check(**_right(number) | {"remedy": "z"})
    )
    for part in start.parts:
        wrong = [letter for letter in part.options if letter != part.expected]
        remarks = [part.judge(letter).remark for letter in wrong]
        assert all(remarks)
        assert {AnswerState.NOT_YET} == {part.judge(letter).state for letter in wrong}


def test_the_right_answers_are_not_always_the_same_letter() -> None:
    """Neither for the cause nor for the remedy."""
    keys: list[dict[str, Any]] = [_right(number) for number in NUMBERS]

    assert len(CAUSES) == len({key["cause"] for key in keys})
    assert 3 == len({key["remedy"] for key in keys})


def test_each_start_is_credited_and_commands_are_read() -> None:
    """An address, how exactly it is quoted, and a command that planner.read takes."""
    for number in NUMBERS:
        start = debug_this_start(number)
        assert "https://github.com/" in start.credit
        assert "published" in start.credit
        assert planner.read(start.command).model in start.command


def test_what_is_shown_is_computed_and_folded_without_scripts() -> None:
    """The answer is not among what is seen first."""
    start = debug_this_start(2)
    bundle = start._repr_mimebundle_()
    first, _, folded = bundle["text/html"].partition("<details")

    assert start.error[0] in first
    assert "7.34 GiB" in folded
    assert "Which cause?" in bundle["text/plain"]
    assert start.to_html().startswith("<!doctype html>")


def test_no_other_number_has_a_start() -> None:
    """The message says which have one."""
    with pytest.raises(PlannerError, match="no start 11: 1 to 10"):
        debug_this_start(11)
