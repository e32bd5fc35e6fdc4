"""Lesson 7, optional: a nightly job with Ray Data LLM."""

from __future__ import annotations

from typing import Any

from planner.learn.catalogue import checkpoint
from planner.learn.parts import Condition, MadePart
from planner.planning.load import Load
from planner.ray.build import pipeline
from planner.ray.bundles import Node
from planner.ray.pipelines import Pipeline

REPLICAS = (1, 4)
"""Of the nightly job: the fewest and the most."""
ROWS = 20_000
"""Letters to summarise."""
LETTER = Load(prompt_tokens=3000, output_tokens=300)
SERVERS = tuple(
    Node(name=name, cpus=16, gpus=2, accelerator_type="L4")
    for name in ("first", "second")
)
_CARDS = sum(server.gpus for server in SERVERS)


def minutes_at_least(job: Pipeline) -> float:
    """Return the shortest time for all rows of a job, in whole minutes."""
    bound = job.throughput
    return 0.0 if bound is None else float(round((bound.at_least_seconds or 0.0) / 60))


MADE = {
    "7.3": MadePart(
        name="pipeline",
        kind=Pipeline,
        conditions=(
            Condition(
                text="be for a plan that starts",
                is_met=lambda made: made.plan.fits,
            ),
            Condition(
                text="use exactly four cards from the start",
                is_met=lambda made: made.gpus_minimum == made.gpus_maximum == _CARDS,
            ),
            Condition(
                text="place every replica",
                is_met=lambda made: (
                    made.on(SERVERS).count("placed") == made.replicas_maximum
                ),
            ),
        ),
        example=lambda: pipeline(
            checkpoint(7), concurrency=(2, 2), accelerator_type="L4"
        ),
        how="Make one with planner.ray.pipeline(pair, ...).",
    ),
}


def figures() -> dict[str, Any]:
    """Return the figures of the lesson's words by name."""
    night = pipeline(
        checkpoint(7),
        concurrency=REPLICAS,
        accelerator_type="L4",
        num_rows=ROWS,
        load=LETTER,
    )
    job = MADE["7.3"].example()
    placed, minutes = night.on(SERVERS), minutes_at_least(night)
    return {
        "fewest_replicas": REPLICAS[0],
        "most_replicas": REPLICAS[1],
        "of_a_replica": night.gpus_per_replica,
        "at_least": night.gpus_minimum,
        "at_most": night.gpus_maximum,
        "cards_there": _CARDS,
        "placed": placed.count("placed"),
        "waiting": placed.count("waits"),
        "minutes_of_one": minutes * REPLICAS[1],
        "minutes_of_two": minutes * 2,
        "hours": minutes / 60,
        "job_replicas": job.replicas_maximum,
        "of_a_job_replica": job.gpus_per_replica,
        "job_cards": job.gpus_total,
        "job_places": "\n".join(one.why for one in job.on(SERVERS).replicas),
    }
