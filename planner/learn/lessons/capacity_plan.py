"""Lesson 6: a capacity plan for a real request, by day and by night."""

from __future__ import annotations

from collections.abc import Mapping

from planner.learn.checkpoints import checkpoint
from planner.learn.conditions import made_plan, of_model
from planner.learn.exercise import Exercise
from planner.learn.parts import Condition, Mistake, Number, Size
from planner.learn.reading import rank_of
from planner.learn.showing import Shown
from planner.load import Load
from planner.result import Plan
from planner.serving import serving
from planner.solve.requests import most_requests
from planner.solve.solution import Solution
from planner.units import format_gib

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


FORTY_VISITORS = Exercise(
    name="6.1",
    title="The memory of forty visitors",
    minutes=2,
    parts=(
        Size(
            name="kv_cache",
            expected=_all_requests,
            mistakes=(
                Mistake(
                    value=lambda: _all_requests() * 3 // 4,
                    says="That is the questions alone. Answers are kept as well, "
                    "token by token.",
                ),
                Mistake(
                    value=lambda: _all_requests() // 4,
                    says="That is the answers alone. The questions are kept as well.",
                ),
                Mistake(value=_one_request, says="That is one visitor."),
                Mistake(
                    value=lambda: _all_requests() * 2,
                    says="That is the KV cache in bfloat16. The desk keeps it in fp8.",
                ),
                Mistake(
                    value=lambda: _all_requests() * 8,
                    says="8 bits are one byte.",
                ),
            ),
        ),
    ),
    hints=(
        "A visitor needs room for the question and the answer: 4,000 tokens.",
        "The desk keeps 72 KiB for each token.",
        "40 x 4,000 x 72 KiB",
    ),
    solved=lambda: Shown(
        title="Solution",
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
    minutes=2,
    parts=(
        Number(
            name="requests",
            expected=lambda: float(_most().value or 0),
            mistakes=(
                Mistake(
                    value=lambda: serving(_desk(), VISITORS).requests_served,
                    says="That is the desk as it is. The solver also sets "
                    "max_num_seqs, which makes buffers and graphs smaller.",
                ),
                Mistake(
                    value=lambda: (
                        _desk().kv_cache_size_tokens // VISITORS.prompt_tokens
                    ),
                    says="You divided by the question alone. The answer needs room "
                    "as well.",
                ),
                Mistake(
                    value=lambda: VISITORS.requests,
                    says="That is what the city asks for. What does one card hold?",
                ),
            ),
        ),
    ),
    hints=(
        "planner.solve answers this question.",
        "planner.solve.most_requests(desk, prompt_tokens=3000, output_tokens=1000)",
        "Its answer stands behind the check mark, and in .value.",
    ),
    solved=lambda: Shown(
        title="Solution", text=_most().why, code=_most().command()
    ),
)


def _price(plan: Plan) -> float:
    return plan.gpus_total * PRICES.get(plan.gpu.name, float("inf"))


def _answer() -> Plan:
    return _desk().changed(tensor_parallel_size=2, max_num_seqs=VISITORS.requests)


CHOOSE_THE_CARDS = Exercise(
    name="6.3",
    title="Choose the cards",
    minutes=3,
    parts=(
        made_plan(
            of_model("Qwen/Qwen3-8B"),
            Condition(
                text=f"hold {VISITORS.requests} requests of "
                f"{VISITORS.request_tokens:,} tokens, even at the low end of its range",
                is_met=lambda plan: serving(plan, VISITORS).is_served,
            ),
            Condition(
                text=f"cost at most {_BUDGET} euros per hour",
                is_met=lambda plan: _price(plan) <= _BUDGET,
            ),
            example=_answer,
            how="Make one with desk.changed(...).",
        ),
    ),
    hints=(
        "The comparison above says which cards serve, and what they cost.",
        "Two L4 serve. How do two cards work as one?",
        "desk.changed(tensor_parallel_size=2)",
    ),
    solved=lambda: Shown(
        title="Solution",
        text=f"{_answer().gpus_total} L4 at {PRICES['L4']} are {_price(_answer()):.1f} "
        f"euros per hour. They hold {serving(_answer(), VISITORS).requests_held} such "
        "requests.",
        code=_answer().command(),
    ),
)


EXERCISES: tuple[Exercise, ...] = (
    FORTY_VISITORS,
    ON_ONE_CARD,
    CHOOSE_THE_CARDS,
)
