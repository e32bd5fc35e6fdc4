"""Lesson 6: a capacity plan for a real request, by day and by night."""

from __future__ import annotations

from collections.abc import Mapping

from planner.learn.account import rank_of
from planner.learn.catalogue import checkpoint
from planner.learn.display import Shown
from planner.learn.exercise import Exercise
from planner.learn.parts import (
    Condition,
    Made,
    Mistake,
    Number,
    Size,
    made_plan,
    of_model,
)
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import serving
from planner.ray.build import pipeline
from planner.ray.bundles import Node
from planner.ray.pipelines import Pipeline
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
                    says="That is the questions alone. Answers are stored as well, "
                    "token by token.",
                ),
                Mistake(
                    value=lambda: _all_requests() // 4,
                    says="That is the answers alone. The questions are stored as well.",
                ),
                Mistake(value=_one_request, says="That is one visitor."),
                Mistake(
                    value=lambda: _all_requests() * 2,
                    says="That is the KV cache in bfloat16. The desk stores it in fp8.",
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
        "The desk stores 72 KiB for each token.",
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
                    says="That is what the city needs. How many does one card hold?",
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
    minutes=2,
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
        "The comparison above says which cards serve the load, and what they cost.",
        "Two L4 are enough. How do two cards work as one?",
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


REPLICAS = (1, 4)
"""Of the nightly job: the fewest and the most."""


def _night() -> Pipeline:
    return pipeline(_pair(), concurrency=REPLICAS, accelerator_type="L4")


def _pair() -> Plan:
    return _desk().changed(tensor_parallel_size=2, entrypoint="engine")


CARDS_FOR_THE_NIGHT = Exercise(
    name="6.4",
    title="Cards for the night",
    minutes=2,
    parts=(
        Number(
            name="at_least",
            expected=lambda: _night().gpus_minimum,
            mistakes=(
                Mistake(
                    value=lambda: REPLICAS[0],
                    says="That is the number of replicas. Each has its own cards.",
                ),
            ),
        ),
        Number(
            name="at_most",
            expected=lambda: _night().gpus_maximum,
            mistakes=(
                Mistake(
                    value=lambda: REPLICAS[1],
                    says="That is the number of replicas. Each has its own cards.",
                ),
                Mistake(
                    value=lambda: _night().gpus_per_replica,
                    says="That is one replica.",
                ),
            ),
        ),
    ),
    hints=(
        "concurrency counts replicas, not cards.",
        "tensor_parallel_size says how many cards a replica has.",
        "Replicas x 2, for the fewest and for the most.",
    ),
    solved=lambda: Shown(
        title="Solution",
        text=f"{REPLICAS[0]} to {REPLICAS[1]} replicas x "
        f"{_night().gpus_per_replica:g} cards = {_night().gpus_minimum:g} to "
        f"{_night().gpus_maximum:g} cards.",
    ),
)


def _servers() -> tuple[Node, ...]:
    return tuple(
        Node(name=name, cpus=16, gpus=2, accelerator_type="L4")
        for name in ("first", "second")
    )


def _cards_there() -> float:
    return sum(server.gpus for server in _servers())


def _has_places(made: Pipeline) -> bool:
    return made.on(_servers()).count("placed") == made.replicas_maximum


def _job() -> Pipeline:
    return pipeline(_pair(), concurrency=(2, 2), accelerator_type="L4")


A_PLACE_FOR_EVERY_REPLICA = Exercise(
    name="6.5",
    title="A place for every replica",
    minutes=2,
    parts=(
        Made(
            name="pipeline",
            kind=Pipeline,
            conditions=(
                Condition(
                    text="be for a plan that starts",
                    is_met=lambda made: made.plan.fits,
                ),
                Condition(
                    text="use exactly four cards from the start",
                    is_met=lambda made: (
                        made.gpus_minimum == made.gpus_maximum == _cards_there()
                    ),
                ),
                Condition(text="place every replica", is_met=_has_places),
            ),
            example=_job,
            how="Make one with planner.ray.pipeline(pair, ...).",
        ),
    ),
    hints=(
        "Two servers with two cards each: how many replicas of two cards is that?",
        "concurrency=2 means one to two. A pair says the fewest and the most.",
        "concurrency=(2, 2)",
    ),
    solved=lambda: Shown(
        title="Solution",
        text=f"{_job().replicas_maximum} replicas x {_job().gpus_per_replica:g} cards "
        f"= {_job().gpus_total:g} cards.\n"
        + "\n".join(one.why for one in _job().on(_servers()).replicas),
        code='planner.ray.pipeline(pair, concurrency=(2, 2), accelerator_type="L4")',
    ),
)

EXERCISES: tuple[Exercise, ...] = (
    FORTY_VISITORS,
    ON_ONE_CARD,
    CHOOSE_THE_CARDS,
    CARDS_FOR_THE_NIGHT,
    A_PLACE_FOR_EVERY_REPLICA,
)
