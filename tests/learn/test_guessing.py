"""Guess the bar: one pair a day, the planner's own bar, and a score that is stated."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from planner.errors import PlannerError
from planner.learn import guess_the_bar
from planner.learn.guessing import KV_CACHE, points
from planner.units import GIB, format_gib

DAY = "2026-11-24"


def test_the_pair_of_a_day_is_the_same_for_everybody() -> None:
    """The date alone chooses it."""
    one, other = guess_the_bar(DAY), guess_the_bar(date(2026, 11, 24))

    assert [str(each) for each in one.rounds] == [str(each) for each in other.rounds]
    assert "24 November 2026" in one.rounds[0].title


def test_days_have_different_pairs_that_all_start() -> None:
    """A week of neighbours: no model twice."""
    days = [date(2026, 12, 1) + timedelta(days=number) for number in range(7)]
    plans = [guess_the_bar(day, rounds=1).rounds[0].plan for day in days]

    assert all(plan.fits for plan in plans)
    assert 7 == len({plan.name for plan in plans})


def test_a_day_has_others_to_go_on_with() -> None:
    """None of them is the next day's."""
    game = guess_the_bar(DAY, rounds=4)
    names = [one.plan.name for one in game.rounds]

    assert 4 == len(set(names))
    assert guess_the_bar("2026-11-25", rounds=1).rounds[0].plan.name not in names


def test_the_parts_are_the_whole_gpu_and_the_planners_lines() -> None:
    """Nothing is left out: each line of the account is in one part."""
    for one in guess_the_bar(DAY).rounds:
        rank = one.plan.limiting_rank
        assert rank is not None
        sizes = {part.name: part.size_bytes for part in one.parts}
        assert one.plan.gpu.total_memory_bytes == sum(sizes.values())
        assert rank.line("weights").size_bytes == sizes["weights"]
        assert rank.line(KV_CACHE).size_bytes == sizes[KV_CACHE]
        whys = [why for part in one.parts for why in part.why]
        assert len(rank.lines) + 1 == len(whys)


@pytest.mark.parametrize(
    ("wrong", "total", "expected"),
    [(0, 22, 100), (2.2, 22, 90), (0.1, 22, 100), (22, 22, 0), (40, 22, 0)],
)
def test_the_score_is_the_formula(wrong: float, total: float, expected: int) -> None:
    """100 minus the differences as a percentage, and never below 0."""
    assert expected == points(wrong, total)


def test_a_right_guess_is_100_and_memory_in_the_wrong_part_counts_twice() -> None:
    """Once where it is too much, once where it is missing."""
    game = guess_the_bar(DAY, rounds=1)
    first = game.rounds[0]
    right = {part.name: part.size_bytes / GIB for part in first.parts}
    tenth = first.total_bytes / GIB / 10
    moved = right | {
        "weights": right["weights"] + tenth,
        KV_CACHE: right[KV_CACHE] - tenth,
    }
    rest = {name: gib for name, gib in right.items() if name != KV_CACHE}

    assert 100 == game.score(right)
    assert 100 == game.score(rest)
    assert 80 == game.score(moved)


def test_what_is_no_part_no_date_or_no_number_of_rounds_is_refused() -> None:
    """Each with what there is."""
    with pytest.raises(PlannerError, match="The bar has no graphs"):
        guess_the_bar(DAY, rounds=1).score({"graphs": 1})
    with pytest.raises(PlannerError, match="is not a date"):
        guess_the_bar("yesterday")
    with pytest.raises(PlannerError, match="1 to 60 rounds"):
        guess_the_bar(DAY, rounds=0)


def test_without_scripts_the_answer_is_folded() -> None:
    """The question first; text alone does not give the answer away."""
    game = guess_the_bar(DAY, rounds=1)
    bundle = game._repr_mimebundle_()
    fallback = bundle["text/html"].partition("<script")[0]
    weights = format_gib(game.rounds[0].parts[0].size_bytes)

    assert weights in fallback.partition("<details")[2]
    assert weights not in fallback.partition("<details")[0]
    assert weights not in bundle["text/plain"]
    assert "where does the memory go?" in bundle["text/plain"]
    assert game.to_html().startswith("<!doctype html>")
