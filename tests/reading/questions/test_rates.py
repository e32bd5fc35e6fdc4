"""Requests and tokens a second: beside the bound and the forecast, never a load."""

from __future__ import annotations

import pytest

import planner
from planner.reading.questions.question import Question
from planner.reading.questions.rates import rate_in

RATES = {
    "Qwen3-8B on an L4, 100 rps": (100, False),
    "Qwen3-8B on an L4 at 120 requests per minute": (2, False),
    "Qwen3-8B on an L4, 86400 requests per day": (1, False),
    "Qwen3-8B on an L4, 604,800 requests per week": (1, False),
    "Qwen3-8B on an L4, 5259600 requests per month": (2, False),
    "Qwen3-8B auf einer L4, 5259600 Anfragen pro Monat": (2, False),
    "Qwen3-8B 在 L4 上 2629800 请求/月": (1, False),
    "Qwen3-8B on an L4, 86400 daily requests": (1, False),
    "Qwen3-8B 在 L4 上 日均86400次调用": (1, False),
    "Qwen3-8B 在 L4 上 每天约8.64万次请求": (1, False),
    "Qwen3-8B on an L4: 12 tok/s": (12, True),
    "Qwen3-8B on an L4, 60 rpm": (1, False),
    "Qwen3-8B on an L4, QPS 20": (20, False),
    "Qwen3-8B on an L4, 86.4 million tokens per day": (1000, True),
}


@pytest.mark.parametrize("text", RATES)
def test_a_rate_is_told_by_the_second(text) -> None:
    """Whatever it counts, and in whatever time."""
    rate = rate_in(Question(text))
    assert rate is not None
    assert RATES[text] == (rate.per_second, rate.is_tokens)


def test_more_than_the_gpus_can_read_is_no() -> None:
    """100 requests with 300 tokens of answer are 30,000 tokens a second.

    How many copies have to share them follows from the bound.
    """
    text = "llama-3.3-70b awq on 4 A10G, 100 rps, 1200 prompt and 300 output tokens?"
    said = planner.read(text).explain().headline
    assert said.startswith("No: 100 requests per second with answers of 300 tokens are")
    assert "30,000 tokens per second" in said
    assert "such copies have to share them" in said


def test_a_rate_that_the_forecast_reaches_is_likely() -> None:
    """A forecast has a range: never a plain yes."""
    text = "Qwen3-8B on an H100, 1 request per second, 500 prompt and 100 output tokens"
    assert (
        planner.read(text)
        .explain()
        .headline.startswith("Likely: 1 request per second ")
    )


def test_tokens_of_all_requests_are_no_speed_of_one() -> None:
    """By the minute or the day, or in total; and no length."""
    for rate in ("60 thousand tokens per minute", "1000 tok/s total"):
        explained = planner.read(f"Qwen3-8B on an H100, {rate}, ok?").explain()
        assert explained.headline.startswith("Likely: 1,000 tokens per second of all")
        assert explained.reading.engine_args == {}


def test_a_measured_speed_is_compared_with_the_forecast() -> None:
    """Not with the share of memory that vLLM takes by design."""
    text = "I get 12 tok/s with Qwen3-8B on an H100. Is that expected?"
    explained = planner.read(text).explain()
    assert explained.reading.intent == "speed"
    assert any(
        "12 tokens per second of a request are below" in x for x in explained.answer
    )
    much = planner.read(text.replace("12 tok", "2298.9 tok")).explain()
    assert "2,299 tokens per second of a request are above that range." in much.answer


def test_a_speed_that_is_wanted_comes_before_the_memory() -> None:
    """20 requests read 61 GiB of weights over two A100 a step: 23 tokens a second."""
    text = "30 tokens/s per user for 20 users with Qwen3-32B on 2x A100?"
    explained = planner.read(text).explain()
    assert explained.headline.startswith("Open: 30 tokens per second for each of 20")
    slow = planner.read(text.replace("30", "300")).explain()
    assert slow.headline.startswith("No: 300 tokens per second for each of 20 are")
