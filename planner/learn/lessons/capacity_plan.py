"""Lesson 6: a capacity plan for a real request, and one of the learner's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.learn.account import rank_of, token_bytes
from planner.learn.catalogue import checkpoint
from planner.learn.parts import Condition, made_plan, of_model
from planner.planning.load import Load
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.planning.serving import serving
from planner.solve.comparing.gpus import GPUChoice, GPUComparison, compare_gpus
from planner.solve.requests import most_requests
from planner.units import GIB, KIB

VISITORS = Load(prompt_tokens=3000, output_tokens=1000, requests=40)
"""Forty visitors at once: a question with its documents, and an answer."""
PRICES: Mapping[str, float] = {"L4": 0.8, "L40S": 1.9, "H100": 3.6}
"""Euros per hour of one card, invented for the story."""
_BUDGET = 1.8
_WORKSHOP = tuple(f"qwen/qwen3-{size}" for size in ("0.6b", "8b", "14b", "32b"))


def _price(plan: Plan) -> float:
    return plan.gpus_total * PRICES.get(plan.gpu.name, float("inf"))


def _served(made: Plan) -> str:
    if made.load is None:
        return "has none"
    served = serving(made, made.load).requests_served
    return f"serves {served} of {made.load.requests}"


MADE = {
    "6.3": made_plan(
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
            yours=lambda plan: (
                f"costs {_price(plan):.2f}"
                if plan.gpu.name in PRICES
                else f"runs on {plan.gpu.name}, which nobody offers"
            ),
        ),
        example=lambda: checkpoint(6).changed(
            tensor_parallel_size=2, max_num_seqs=VISITORS.requests
        ),
        how="Make one with desk.changed(...).",
    ),
    "6.4": made_plan(
        Condition(
            text="be for a model that the workshop has not used",
            is_met=lambda made: made.name.lower() not in _WORKSHOP,
            yours=lambda made: f"is for {made.name}",
        ),
        Condition(
            text="serve a load of its own, load=planner.Load(...)",
            is_met=lambda made: (
                made.load is not None and serving(made, made.load).is_served
            ),
            yours=_served,
        ),
        example=lambda: plan(
            "Qwen/Qwen3-30B-A3B",
            gpu="H100",
            max_model_len=8192,
            load=Load(prompt_tokens=2000, output_tokens=500, requests=20),
        ),
        how="Make one with planner.plan(MODEL, gpu=..., load=...).",
    ),
}


def figures() -> dict[str, Any]:
    """Return the figures of the lesson's words by name."""
    desk, answer, own = checkpoint(6), MADE["6.3"].example(), MADE["6.4"].example()
    tokens = VISITORS.request_tokens
    most = most_requests(
        desk,
        prompt_tokens=VISITORS.prompt_tokens,
        output_tokens=VISITORS.output_tokens,
    )
    return {
        **_of_visitors(desk),
        **_of_offers(desk),
        "most": float(most.value or 0),
        "most_why": most.why,
        "most_command": most.command(),
        "desk_as_it_is": serving(desk, VISITORS).requests_served,
        "questions_alone": desk.kv_cache_size_tokens // VISITORS.prompt_tokens,
        "middle_of_the_range": desk.kv_cache_size_tokens // tokens,
        "first_desk": checkpoint(1).kv_cache_size_tokens // tokens,
        "max_num_seqs": 256.0,
        "cards": answer.gpus_total,
        "card_price": PRICES["L4"],
        "price": _price(answer),
        "held": serving(answer, VISITORS).requests_held,
        "command": answer.command(),
        "own_model": own.name,
        "own_gpu": own.gpu.name,
        "own_served": serving(own, own.load or VISITORS).requests_served,
        "own_command": own.command(),
    }


def _of_visitors(desk: Plan) -> dict[str, Any]:
    rank, blocks = rank_of(desk), serving(desk, VISITORS).blocks_per_request
    one = blocks * rank.bytes_per_block
    every = one * VISITORS.requests
    # The product of the exercise as people type it, in KiB.
    product = VISITORS.requests * VISITORS.request_tokens * token_bytes(desk) / KIB
    return {
        "visitors": VISITORS.requests,
        "blocks": blocks,
        "bytes_per_block": rank.bytes_per_block,
        "all": every,
        "all_questions": every * 3 // 4,
        "all_answers": every // 4,
        "one": one,
        "all_in_bfloat16": every * 2,
        "all_in_bits": every * 8,
        "a_million_kib_as_gib": round(product / 10**6 * GIB),
        "a_million_kib_as_gb": round(product / 10**6 * 10**9),
    }


def _of_offers(desk: Plan) -> dict[str, Any]:
    offers = compare_gpus(desk, list(PRICES), PRICES, VISITORS, currency="euros")
    by_hour = _cheapest(offers, "price_per_hour")
    by_answer = _cheapest(offers, "at_least_price_per_million_answer_tokens")
    return {
        "by_hour": f"{by_hour.gpus_total} {by_hour.gpu.name}",
        "by_hour_price": by_hour.price_per_hour,
        "by_hour_tokens": by_hour.at_most_tokens_per_second,
        "by_hour_million": by_hour.at_least_price_per_million_answer_tokens,
        "by_answer": f"{by_answer.gpus_total} {by_answer.gpu.name}",
        "by_answer_tokens": by_answer.at_most_tokens_per_second,
        "by_answer_million": by_answer.at_least_price_per_million_answer_tokens,
    }


def _cheapest(offers: GPUComparison, price: str) -> GPUChoice:
    serving_ones = [one for one in offers.choices if one.serves]
    return min(serving_ones, key=lambda one: getattr(one, price) or float("inf"))
