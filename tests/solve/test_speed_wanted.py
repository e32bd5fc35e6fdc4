"""A speed that a set-up has to reach, by its forecast."""

import pytest

import planner
from planner import Load, PlannerError
from planner.solve.speed.wanted import ANY_SPEED, WantedSpeed
from tests import plans

LOAD = Load(prompt_tokens=1000, output_tokens=300, requests=20)


def test_the_value_decides_and_the_slow_end_makes_sure() -> None:
    """Between the slow end and the value a speed is likely, but not sure."""
    found = planner.speed_forecast(plans.fitting(), LOAD)
    each, first = found.per_request_tokens_per_second, found.first_token_seconds
    cases = (
        (WantedSpeed(tokens_per_second_each=0.9 * each.low), True, True),
        (WantedSpeed(tokens_per_second_each=(each.low + each.value) / 2), True, False),
        (WantedSpeed(tokens_per_second_each=1.1 * each.value), False, False),
        (WantedSpeed(first_token_seconds=1.1 * first.high), True, True),
        (WantedSpeed(first_token_seconds=(first.value + first.high) / 2), True, False),
        (WantedSpeed(first_token_seconds=0.9 * first.value), False, False),
    )

    for wanted, is_likely, is_sure in cases:
        assert (is_likely, is_sure) == (not wanted.lacks(found), wanted.is_sure(found))


def test_what_is_not_known_reaches_nothing_that_is_wanted() -> None:
    """And everything where nothing is."""
    turing = planner.plan("Qwen/Qwen3-0.6B", gpu="T4", max_model_len=4096)
    unknown = planner.speed_forecast(turing, LOAD)
    wanted = WantedSpeed(tokens_per_second_each=1)

    assert "not known" in wanted.lacks(unknown)
    assert "not known" in wanted.lacks(None)
    assert not ANY_SPEED.lacks(None)
    assert ANY_SPEED.is_sure(unknown)


@pytest.mark.parametrize("value", [0, -1, True, "30"])
def test_only_positive_numbers_are_wanted(value) -> None:
    """Anything else is refused by name."""
    with pytest.raises(PlannerError, match="tokens_per_second_each"):
        WantedSpeed(tokens_per_second_each=value)
    with pytest.raises(PlannerError, match="first_token_seconds"):
        WantedSpeed(first_token_seconds=value)


def test_a_search_goes_on_until_each_user_is_fast_enough() -> None:
    """One H100 serves 20 requests of Qwen3-32B; more make each of them faster."""
    any_speed = planner.set_ups("Qwen/Qwen3-32B", LOAD, ["H100"])
    (slowest,) = any_speed.ranked()
    each = slowest.forecast.per_request_tokens_per_second.value
    faster = planner.set_ups(
        "Qwen/Qwen3-32B", LOAD, ["H100"], tokens_per_second_each=1.2 * each
    )

    assert faster.fewest.gpus_total > any_speed.fewest.gpus_total
    for one in faster.found:
        assert one.forecast.per_request_tokens_per_second.value >= 1.2 * each
    assert isinstance(faster.fewest.is_sure_of_speed, bool)


def test_a_gpu_that_is_too_slow_says_by_how_much() -> None:
    """It serves the load; what it lacks is speed."""
    found = planner.set_ups(
        "Qwen/Qwen3-8B", LOAD, ["L4"], tokens_per_second_each=500, gpus_per_node=2
    )
    (miss,) = found.misses

    assert not found.found
    assert "tokens per second for each request, 500 are wanted" in miss.too_slow
    assert miss.too_slow in miss.why
    assert f"serves the load, but {miss.too_slow}" in str(found)
