"""The load: requests at once, and the length of each."""

import pytest

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
    ],
)
def test_an_impossible_count_is_named(wrong):
    """The error names the count that cannot be."""
    given = {"prompt_tokens": 1, "output_tokens": 1, "requests": 1} | wrong

    with pytest.raises(PlannerError, match=next(iter(wrong))):
        Load(**given)
