"""What a room votes on: the same checks as the lessons', counted for all."""

from __future__ import annotations

import re

import pytest

from planner.learn import exercise
from planner.learn.parts import Choice
from planner.learn.room import LONGEST_ANSWER, MOST_BARS, Duel, Poll, questions
from tests.conftest import ROOT

ASKED = questions()
BY_TITLE = {one.title: one for one in ASKED}
KV_CACHE = BY_TITLE["Lesson 1, prediction"]
TOKEN = BY_TITLE["Exercise 3.1: The bytes of one token"]
START = BY_TITLE["Exercise 3.2: Blocks"]
(DUEL,) = [one for one in ASKED if isinstance(one, Duel)][:1]


def _votes(*answers):
    return [("A", answer) for answer in answers]


def test_there_are_predictions_choices_figures_and_duels() -> None:
    """By lesson; titles are told apart."""
    assert len(BY_TITLE) == len(ASKED)
    assert {"Lesson 1", "Lesson 6"} <= {title[:8] for title in BY_TITLE}
    assert sum(isinstance(one, Duel) for one in ASKED) == 2
    assert sum(bool(one.described()["options"]) for one in ASKED) == 4


@pytest.mark.parametrize(
    "poll", [one for one in ASKED if isinstance(one, Poll)], ids=lambda one: one.title
)
def test_the_answer_is_right_and_each_slip_is_named(poll) -> None:
    """What the planner computes, and every figure of a forgotten step."""
    known = poll.known()
    if poll.options:
        for letter in poll.options:
            is_right = letter == known.part.expected
            assert ("right" if is_right else "slip") == poll.judged(letter)[0]
        return
    unit = " bytes" if isinstance(known.calculated, int) else ""

    assert "right" == poll.judged(f"{known.calculated}{unit}")[0]
    for slip in known.slips:
        kind, says = poll.judged(f"{slip.value():{'.0f' if unit else '.6g'}}{unit}")
        assert ("slip", True) == (kind, says in {one.says for one in known.slips})


def test_the_histogram_counts_figures_that_are_alike() -> None:
    """In any writing of a unit, with a comma too; what is no figure is named so."""
    groups = KV_CACHE.tally(_votes("7 GiB", "7G", "7.0 gib", "3,6 GiB", "no idea"))

    assert [("3.6 GiB", 1), ("7 GiB", 3), ("not read as a figure", 1)] == [
        (one.label, one.count) for one in groups
    ]


def test_many_different_figures_are_rounded_more() -> None:
    """A room of thirty has ten bars at most, and nobody is left out."""
    groups = KV_CACHE.tally(_votes(*(f"{3 + 0.11 * at:.2f} GiB" for at in range(30))))

    assert MOST_BARS >= len(groups)
    assert 30 == sum(one.count for one in groups)


def test_slips_are_named_with_how_many_made_them() -> None:
    """9 of 20 subtracted the weights from the whole card."""
    votes = _votes(*["6.76 GiB"] * 9, *["3.6 GiB"] * 8, *["11 GiB"] * 3)
    groups = KV_CACHE.named(votes)

    assert [("right", 8), ("slip", 9), ("other", 3)] == [
        (one.kind, one.count) for one in groups
    ]
    assert groups[1].label.startswith("the whole card minus the weights.")


def test_an_exercise_says_what_its_check_says() -> None:
    """All 32 heads counted in place of 8: four times 144 KiB."""
    (of,) = (one for one in exercise("3.1").parts if one.name == "token")

    assert ("slip", of.judge("576 KiB").remark) == TOKEN.judged("576 KiB")
    assert isinstance(exercise("3.2").parts[1], Choice)
    assert START.named(_votes("b", "b", "a"))[0].label == "right"


@pytest.mark.parametrize("answer", [None, 3, "", " ", "x" * (LONGEST_ANSWER + 1), {}])
def test_what_is_no_vote_is_not_counted(answer) -> None:
    """Neither is a letter that is no option."""
    assert KV_CACHE.read(answer) is None
    assert START.read("z") is None
    assert START.read("a") == "a"


def test_a_duel_has_points_for_each_side() -> None:
    """The planner's own bar has 100; a side's score is that in its middle."""
    right = {
        one.name: one.size_bytes / 2**30
        for one in DUEL.round.parts
        if one.name != "KV cache"
    }
    zero = dict.fromkeys(right, 0.0)
    groups = DUEL.named([("A", right), ("A", right), ("B", zero)])

    assert "Side A: 100 points of 100, the best 100" in groups[0].label
    assert [2, 1] == [one.count for one in groups]
    assert "weights" in DUEL.answer()
    assert "size" not in str(DUEL.described())


@pytest.mark.parametrize(
    "change", [{"weights": 1e9}, {"weights": -1}, {"weights": "1"}, {"more": 1.0}]
)
def test_a_bar_that_is_none_is_not_counted(change) -> None:
    """More than the GPU has, less than nothing, no number, another part."""
    names = {one.name for one in DUEL.round.parts} - {"KV cache"}
    bar = dict.fromkeys(names, 1.0)

    assert DUEL.read(bar) == bar
    assert DUEL.read(bar | change) is None
    assert DUEL.read({"weights": 1.0}) is None


def test_every_figure_of_a_question_is_one_of_the_lessons() -> None:
    """Which are held to what computes them by `test_lesson_figures.py`."""
    lessons = (ROOT / "notebooks" / "src" / "workshop").glob("[0-9]_*.py")
    written = " ".join(path.read_text(encoding="utf-8") for path in lessons)
    figure = re.compile(r"(?<![\w.,])\d[\d,.]*\d(?![\d])")
    known = set(figure.findall(written))
    polls = [one.asked for one in ASKED if isinstance(one, Poll)]

    assert set() == set(figure.findall(" ".join(polls))) - known
