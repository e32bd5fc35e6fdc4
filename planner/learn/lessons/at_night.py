"""Lesson 7, optional: a nightly job with Ray Data LLM."""

from __future__ import annotations

from planner.learn.catalogue import checkpoint
from planner.learn.display import Shown
from planner.learn.exercise import Exercise
from planner.learn.explanation import OpenQuestion
from planner.learn.parts import Choice, Condition, Made, Mistake, Number
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.ray.build import pipeline
from planner.ray.bundles import Node
from planner.ray.pipelines import Pipeline

REPLICAS = (1, 4)
"""Of the nightly job: the fewest and the most."""


ROWS = 20_000
"""Letters to summarise."""
LETTER = Load(prompt_tokens=3000, output_tokens=300)


def _pair() -> Plan:
    return checkpoint(7)


def _night() -> Pipeline:
    return pipeline(
        _pair(),
        concurrency=REPLICAS,
        accelerator_type="L4",
        num_rows=ROWS,
        load=LETTER,
    )


def minutes_at_least(job: Pipeline) -> float:
    """Return the shortest time for all rows of a job, in whole minutes."""
    bound = job.throughput
    return 0.0 if bound is None else float(round((bound.at_least_seconds or 0.0) / 60))


CARDS_FOR_THE_NIGHT = Exercise(
    name="7.1",
    title="Cards for the night",
    parts=(
        Number(
            name="at_least",
            expected=lambda: _night().gpus_minimum,
            mistakes=(
                Mistake(
                    lambda: REPLICAS[0],
                    "That is the number of replicas. Each has its own cards.",
                ),
                Mistake(
                    lambda: _cards_there(),
                    "That is what the library has. What does the job need?",
                ),
            ),
        ),
        Number(
            name="at_most",
            expected=lambda: _night().gpus_maximum,
            mistakes=(
                Mistake(
                    lambda: REPLICAS[1],
                    "That is the number of replicas. Each has its own cards.",
                ),
                Mistake(lambda: _night().gpus_per_replica, "That is one replica."),
            ),
        ),
    ),
    hints=(
        "concurrency counts replicas, not cards.",
        "tensor_parallel_size says how many cards a replica has.",
        "Replicas x 2, for the fewest and for the most.",
    ),
    solved=lambda: Shown(
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


def _places() -> tuple[int, int]:
    placed = _night().on(_servers())
    return placed.count("placed"), placed.count("waits")


WHO_WAITS = Exercise(
    name="7.2",
    title="Who waits?",
    parts=(
        Number(
            name="placed",
            expected=lambda: _places()[0],
            mistakes=(
                Mistake(
                    lambda: REPLICAS[1],
                    "That is what the job requests at most. Count the cards.",
                ),
                Mistake(
                    lambda: REPLICAS[0],
                    "That is the fewest with which the job runs. More find room.",
                ),
            ),
        ),
        Choice(
            name="job",
            options={
                "a": "it fails, because two replicas find no cards",
                "b": "it waits until all replicas have cards",
                "c": "it runs with the replicas that are placed",
                "d": "it splits the other replicas over single cards",
            },
            expected="c",
            says={
                "a": "A replica that finds no room is no error. It waits.",
                "b": "Only the fewest have to be there, and they are.",
                "d": "A replica needs all of its cards, or it does not start.",
            },
        ),
    ),
    hints=(
        "Two servers of two cards each, and a replica takes two cards.",
        "The headline of the placement counts both.",
        "job: concurrency=(1, 4) says that one replica is enough to begin with.",
    ),
    solved=lambda: Shown(
        title="Solution: c",
        text=f"{_places()[0]} replicas are placed and {_places()[1]} wait. "
        f"{REPLICAS[0]} is enough to run.",
    ),
)

A_PLACE_FOR_EVERY_REPLICA = Exercise(
    name="7.3",
    title="A place for every replica",
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
        text=f"{_job().replicas_maximum} replicas x {_job().gpus_per_replica:g} cards "
        f"= {_job().gpus_total:g} cards.\n"
        + "\n".join(one.why for one in _job().on(_servers()).replicas),
        code='planner.ray.pipeline(pair, concurrency=(2, 2), accelerator_type="L4")',
    ),
)


def _said() -> str:
    placed, waiting = _places()
    return (
        f"concurrency=({REPLICAS[0]}, {REPLICAS[1]}) requests up to "
        f"{_night().gpus_maximum:g} cards and needs {_night().gpus_minimum:g}. On "
        f"{_cards_there():g} cards {placed} replicas find a place; {waiting} wait, and "
        "hold nothing. The job runs with those that are placed and takes about twice "
        "as long as with all four. I would write concurrency=(2, 2): it uses all cards "
        "from the start, and nobody wonders in the morning about actors that waited "
        "all night."
    )


QUESTION = OpenQuestion(
    asked="Two of the four replicas found no cards. Why did the job run, and what "
    "would you write instead?",
    expert=_said,
    points=(
        "the first figure of concurrency is enough to run",
        "replicas that wait hold no cards",
        "cards are replicas x tensor parallel",
    ),
)

SLIPS: tuple[Mistake, ...] = (
    Mistake(
        lambda: minutes_at_least(_night()) * REPLICAS[1],
        "one replica alone. Four of them share the letters.",
    ),
    Mistake(
        lambda: minutes_at_least(_night()) * 2,
        "two replicas, which is what four cards hold. The bound counts all four.",
    ),
    Mistake(
        lambda: minutes_at_least(_night()) / 60, "hours, and the figure is in minutes."
    ),
)
"""Figures of the prediction that a forgotten step gives."""

EXERCISES: tuple[Exercise, ...] = (
    CARDS_FOR_THE_NIGHT,
    WHO_WAITS,
    A_PLACE_FOR_EVERY_REPLICA,
)
