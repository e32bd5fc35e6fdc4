"""Every figure in the words of the workshop comes from the calculation."""

from __future__ import annotations

import pytest

from tests.lesson_figures import FIGURES, GIVEN
from tests.lesson_prose import figures, places

PLACES = places()
every_place = pytest.mark.parametrize("place", PLACES)


@every_place
def test_every_figure_is_one_that_is_computed(place: str) -> None:
    """A figure without an entry may be written wrongly, or grow wrong unseen."""
    known = set(FIGURES[place]) | GIVEN.get(place, set())
    parts = {part for entry in known for part in figures(f" {entry} ")}

    assert set() == figures(PLACES[place]) - parts


@every_place
def test_every_figure_is_what_the_planner_computes(place: str) -> None:
    """Worked out again, as the words have it: rounding, unit and all."""
    computed = {entry: work_out() for entry, work_out in FIGURES[place].items()}

    assert {entry: entry for entry in computed} == computed


@every_place
def test_no_entry_is_left_of_words_that_went(place: str) -> None:
    """Lines break where they like."""
    words = " ".join(PLACES[place].split())
    entries = [*FIGURES[place], *GIVEN.get(place, ())]

    assert [] == [entry for entry in entries if entry not in words]


def test_figures_are_found_with_their_units() -> None:
    """Names of models, cards and exercises are no figures, nor is a single digit."""
    text = (
        "Exercise 1.1 (2 minutes): Qwen3-8B on 2 L4, in fp8; `max_num_seqs=64`, 22,112 "
        "tokens, 15.27 GiB or {{ left(desk) }}, 3 of 4"
    )

    assert {"2 L4", "64", "22,112 tokens", "15.27 GiB"} == figures(text)
