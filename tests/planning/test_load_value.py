"""The load: requests at once, and the length of each."""

from dataclasses import replace
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import Load, PlannerError


def test_a_request_is_longest_when_its_answer_ends():
    """3000 of the prompt + 1000 of the answer."""
    assert 3000 + 1000 == Load(prompt_tokens=3000, output_tokens=1000).request_tokens


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt_tokens": 0},
        {"prompt_tokens": 1.5},
        {"output_tokens": -1},
        {"requests": 0},
        {"requests": True},
        {"shared_prefix_tokens": -1},
        {"shared_prefix_tokens": 2},
        {"mean_prompt_tokens": 0},
        {"mean_prompt_tokens": 2},
        {"mean_output_tokens": 2},
        {"mean_output_tokens": 0.5},
    ],
)
def test_an_impossible_count_is_named(wrong):
    """The error names the count that cannot be."""
    given = {"prompt_tokens": 1, "output_tokens": 1, "requests": 1} | wrong

    with pytest.raises(PlannerError, match=next(iter(wrong))):
        Load(**given)


def test_what_is_shared_is_part_of_the_shorter_prompts():
    """A mean prompt of 50 cannot begin with 60 that all share."""
    with pytest.raises(PlannerError, match="shared_prefix_tokens=60 is more than mean"):
        Load(
            prompt_tokens=100,
            output_tokens=1,
            mean_prompt_tokens=50,
            shared_prefix_tokens=60,
        )


def test_a_mean_request_stores_no_more_than_half_of_the_longest_answer():
    """In the middle of an answer half of it is there; long ones are met more often."""
    even = Load(prompt_tokens=900, output_tokens=100, mean_prompt_tokens=400)
    varied = replace(even, output_tokens=1000, mean_output_tokens=100)

    assert 900 + 100 == replace(even, mean_prompt_tokens=None).held_tokens
    assert 400 + 100 // 2 == even.held_tokens
    assert 400 + 100 == varied.held_tokens


@given(answers=st.lists(st.integers(1, 500), min_size=1, max_size=30))
def test_the_mean_over_all_moments_is_at_most_half_of_the_longest(answers):
    """Law: an answer of n tokens is there for n steps, with 1, 2, ... n stored."""
    stored = sum(n * (n + 1) / 2 for n in answers) / sum(answers)

    assert stored <= (max(answers) + 1) / 2


def test_a_conversation_repeats_what_was_said():
    """System prompt 1000, messages of 200, answers of 300: the fourth prompt."""
    load = Load.conversation(
        turns=4,
        prompt_tokens=1000 + 200,
        output_tokens=300,
        requests=20,
        shared_prefix_tokens=1000,
    )

    assert 1000 + 4 * 200 + 3 * 300 == load.prompt_tokens
    assert 1000 + 2.5 * 200 + 1.5 * 300 == load.mean_prompt_tokens
    assert (300, 20, 1000) == (
        load.mean_output_tokens,
        load.requests,
        load.shared_prefix_tokens,
    )
    once = Load.conversation(turns=1, prompt_tokens=1200, output_tokens=300)
    assert Load(prompt_tokens=1200, output_tokens=300) == once
    with pytest.raises(PlannerError, match="turns=0"):
        Load.conversation(turns=0, prompt_tokens=1, output_tokens=1)


@pytest.mark.parametrize("mean", [0.1, 1, 4, 16, 100, 400])
def test_at_a_rate_so_many_run_in_19_of_20_moments(mean):
    """The least that a Poisson distribution exceeds in one of 20, or one beside it."""
    found = Load.at_once(requests_per_second=mean, seconds_per_request=1)
    chances, chance = [], exp(-mean)
    for number in range(found + 2):
        chances.append(chance)
        chance *= mean / (number + 1)

    assert sum(chances) >= 0.95
    assert sum(chances[: max(found - 1, 0)]) < 0.95


@pytest.mark.parametrize("wrong", [(0, 1), (1, -1), ("2", 1), (1, float("inf"))])
def test_a_rate_needs_positive_numbers(wrong):
    """No time, no number at once."""
    with pytest.raises(PlannerError, match="a positive number is needed"):
        Load.at_once(*wrong)


def test_a_load_is_written_by_the_parts_that_are_given():
    """What is left out stays out, in Python and in files."""
    load = Load(prompt_tokens=9, output_tokens=0, shared_prefix_tokens=4)

    assert (
        "Load(prompt_tokens=9, output_tokens=0, requests=1, shared_prefix_tokens=4)"
        == repr(load)
    )
    assert load == eval(repr(load))
    assert Load(**load.to_dict()) == load


def test_another_length_keeps_what_fits_of_the_rest():
    """Means in proportion; of requests of one length there is none."""
    load = Load(
        prompt_tokens=1000,
        output_tokens=100,
        requests=8,
        shared_prefix_tokens=400,
        mean_prompt_tokens=500,
    )

    assert (1000, 2000) == (
        load.with_prompt(2000).mean_prompt_tokens,
        load.with_prompt(2000).prompt_tokens,
    )
    assert 100 == load.with_prompt(200).shared_prefix_tokens
    alike = Load(
        prompt_tokens=200, output_tokens=100, requests=8, shared_prefix_tokens=200
    )
    assert alike == load.of_length(300)
    assert 300 == load.of_length(300).request_tokens
