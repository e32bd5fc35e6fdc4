"""Lesson 6: a capacity plan for a real request, and one of the learner's own."""

from __future__ import annotations

from collections.abc import Mapping

from planner.learn.account import rank_of, token_bytes
from planner.learn.catalogue import checkpoint
from planner.learn.display import Shown
from planner.learn.exercise import Exercise
from planner.learn.explanation import OpenQuestion
from planner.learn.parts import (
    Condition,
    Mistake,
    Number,
    Size,
    made_plan,
    of_model,
)
from planner.planning.load import Load
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.planning.serving import serving
from planner.solve.comparing.gpus import GPUChoice, GPUComparison, compare_gpus
from planner.solve.requests import most_requests
from planner.solve.solution import Solution
from planner.units import GIB, KIB, format_gib

VISITORS = Load(prompt_tokens=3000, output_tokens=1000, requests=40)
"""Forty visitors at once: a question with its documents, and an answer."""
PRICES: Mapping[str, float] = {"L4": 0.8, "L40S": 1.9, "H100": 3.6}
"""Euros per hour of one card, invented for the story."""
_BUDGET = 1.8


def _desk() -> Plan:
    return checkpoint(6)


def _one_request() -> int:
    held = serving(_desk(), VISITORS)
    return held.blocks_per_request * rank_of(_desk()).bytes_per_block


def _all_requests() -> int:
    return _one_request() * VISITORS.requests


def _kibibytes() -> float:
    """Return the product of the exercise as people type it, in KiB."""
    tokens = VISITORS.requests * VISITORS.request_tokens
    return tokens * token_bytes(_desk()) / KIB


_TWICE_A_THOUSAND = (
    "The product is right, and it is in KiB: a GiB is 1,024 x 1,024 of them, not a "
    "million."
)

FORTY_VISITORS = Exercise(
    name="6.1",
    title="The memory of forty visitors",
    parts=(
        Size(
            name="kv_cache",
            expected=_all_requests,
            mistakes=(
                Mistake(
                    lambda: _all_requests() * 3 // 4,
                    "That is the questions alone. Answers are stored as well, "
                    "token by token.",
                ),
                Mistake(
                    lambda: _all_requests() // 4,
                    "That is the answers alone. The questions are stored as well.",
                ),
                Mistake(_one_request, "That is one visitor."),
                Mistake(
                    lambda: _all_requests() * 2,
                    "That is the KV cache in bfloat16. The desk stores it in fp8.",
                ),
                Mistake(lambda: _all_requests() * 8, "8 bits are one byte."),
                Mistake(lambda: round(_kibibytes() / 10**6 * GIB), _TWICE_A_THOUSAND),
                Mistake(lambda: round(_kibibytes() / 10**6 * 10**9), _TWICE_A_THOUSAND),
            ),
        ),
    ),
    hints=(
        "A visitor needs room for the question and the answer: 4,000 tokens.",
        "The desk stores 72 KiB for each token.",
        "40 x 4,000 x 72 KiB",
    ),
    solved=lambda: Shown(
        text=f"{VISITORS.requests} requests x "
        f"{serving(_desk(), VISITORS).blocks_per_request} blocks x "
        f"{rank_of(_desk()).bytes_per_block:,} bytes = {_all_requests():,} bytes = "
        f"{format_gib(_all_requests())}.",
    ),
)


def _most() -> Solution:
    return most_requests(
        _desk(),
        prompt_tokens=VISITORS.prompt_tokens,
        output_tokens=VISITORS.output_tokens,
    )


ON_ONE_CARD = Exercise(
    name="6.2",
    title="How many on one card",
    parts=(
        Number(
            name="requests",
            expected=lambda: float(_most().value or 0),
            mistakes=(
                Mistake(
                    lambda: serving(_desk(), VISITORS).requests_served,
                    "That is the desk as it is. The solver also sets "
                    "max_num_seqs, which makes buffers and graphs smaller.",
                ),
                Mistake(
                    lambda: _desk().kv_cache_size_tokens // VISITORS.prompt_tokens,
                    "You divided by the question alone. The answer needs room as well.",
                ),
                Mistake(
                    lambda: VISITORS.requests,
                    "That is what the city needs. How many does one card hold?",
                ),
            ),
        ),
    ),
    hints=(
        "planner.solve answers this question.",
        "planner.solve.most_requests(desk, prompt_tokens=3000, output_tokens=1000)",
        "Its answer is next to the check mark, and in .value.",
    ),
    solved=lambda: Shown(title="Solution", text=_most().why, code=_most().command()),
)


def _price(plan: Plan) -> float:
    return plan.gpus_total * PRICES.get(plan.gpu.name, float("inf"))


def _answer() -> Plan:
    return _desk().changed(tensor_parallel_size=2, max_num_seqs=VISITORS.requests)


CHOOSE_THE_CARDS = Exercise(
    name="6.3",
    title="Choose the cards",
    parts=(
        made_plan(
            of_model("Qwen/Qwen3-8B"),
            Condition(
                text=f"hold {VISITORS.requests} requests of "
                f"{VISITORS.request_tokens:,} tokens, even at the low end of its range",
                is_met=lambda plan: serving(plan, VISITORS).is_served,
                yours=lambda plan: (
                    f"serves {serving(plan, VISITORS).requests_served} at once"
                ),
            ),
            Condition(
                text=f"cost at most {_BUDGET} euros per hour",
                is_met=lambda plan: _price(plan) <= _BUDGET,
                yours=lambda plan: f"costs {_price(plan):.2f}",
            ),
            example=_answer,
            how="Make one with desk.changed(...).",
        ),
    ),
    hints=(
        "The comparison above says which cards serve the load, and what they cost.",
        "Two L4 are enough. How do two cards work as one?",
        "desk.changed(tensor_parallel_size=2)",
    ),
    solved=lambda: Shown(
        text=f"{_answer().gpus_total} L4 at {PRICES['L4']} are {_price(_answer()):.1f} "
        f"euros per hour. They hold {serving(_answer(), VISITORS).requests_held} such "
        "requests.",
        code=_answer().command(),
    ),
)


_WORKSHOP = tuple(f"qwen/qwen3-{size}" for size in ("0.6b", "8b", "14b", "32b"))


def _own() -> Plan:
    load = Load(prompt_tokens=2000, output_tokens=500, requests=20)
    return plan("Qwen/Qwen3-30B-A3B", gpu="H100", max_model_len=8192, load=load)


def _serves_its_load(made: Plan) -> bool:
    return made.load is not None and serving(made, made.load).is_served


def _of_its_load(made: Plan) -> str:
    if made.load is None:
        return "has none"
    served = serving(made, made.load).requests_served
    return f"serves {served} of {made.load.requests}"


YOUR_OWN = Exercise(
    name="6.4",
    title="Your own model",
    minutes=3,
    parts=(
        made_plan(
            Condition(
                text="be for a model that the workshop has not used",
                is_met=lambda made: made.name.lower() not in _WORKSHOP,
                yours=lambda made: f"is for {made.name}",
            ),
            Condition(
                text="serve a load of its own, load=planner.Load(...)",
                is_met=_serves_its_load,
                yours=_of_its_load,
            ),
            example=_own,
            how="Make one with planner.plan(MODEL, gpu=..., load=...).",
        ),
    ),
    hints=(
        "planner.Explorer() has a list of models and one of cards.",
        "Write the load first: planner.Load(prompt_tokens=..., output_tokens=..., "
        "requests=...).",
        "It does not serve? planner.advise(own) says what would help.",
    ),
    solved=lambda: Shown(
        text=f"One of many: {_own().name} on {_own().gpu.name} serves "
        f"{serving(_own(), _own().load or VISITORS).requests_served} of its requests "
        "at once.",
        code=_own().command(),
    ),
)


def _offers() -> GPUComparison:
    return compare_gpus(_desk(), list(PRICES), PRICES, VISITORS, currency="euros")


def _cheapest(price: str) -> GPUChoice:
    serving_ones = [one for one in _offers().choices if one.serves]
    return min(serving_ones, key=lambda one: getattr(one, price) or float("inf"))


def _of_offers() -> str:
    by_hour = _cheapest("price_per_hour")
    by_answer = _cheapest("at_least_price_per_million_answer_tokens")
    return (
        f"By the hour {by_hour.gpus_total} {by_hour.gpu.name} are cheapest, at "
        f"{by_hour.price_per_hour:.2f} euros. But {by_answer.gpus_total} "
        f"{by_answer.gpu.name} could write up to "
        f"{by_answer.at_most_tokens_per_second:,.0f} tokens per second instead of "
        f"{by_hour.at_most_tokens_per_second:,.0f}, because its memory is faster, so a "
        "million tokens of answers cost at least "
        f"{by_answer.at_least_price_per_million_answer_tokens:.2f} instead of "
        f"{by_hour.at_least_price_per_million_answer_tokens:.2f} euros. That counts "
        "only while there are questions enough: a help desk pays for quiet hours as "
        "well, so the cheaper hour wins; a card that is busy all day is bought by the "
        "answer."
    )


QUESTION = OpenQuestion(
    asked="One card is cheapest by the hour, another by the answer. Which does the "
    "library choose, and why?",
    expert=_of_offers,
    points=(
        "the price per hour is paid in quiet hours too",
        "faster memory writes more answers in that hour",
        "the load decides which of the two counts",
    ),
)

SLIPS: tuple[Mistake, ...] = (
    Mistake(
        lambda: _desk().kv_cache_size_tokens // VISITORS.prompt_tokens,
        "the questions alone, without room for the answers.",
    ),
    Mistake(
        lambda: _desk().kv_cache_size_tokens // VISITORS.request_tokens,
        "the middle of the estimate. The solver counts at the low end of the "
        "range, so that the promise holds.",
    ),
    Mistake(
        lambda: checkpoint(1).kv_cache_size_tokens // VISITORS.request_tokens,
        "the desk of lesson 1. Its weights and its cache are in fp8 by now.",
    ),
    Mistake(
        lambda: 256.0,
        "max_num_seqs, the most that vLLM works on at once. The KV cache is full "
        "before that.",
    ),
)
"""Figures of the prediction that a forgotten step gives."""

EXERCISES: tuple[Exercise, ...] = (
    FORTY_VISITORS,
    ON_ONE_CARD,
    CHOOSE_THE_CARDS,
    YOUR_OWN,
)
