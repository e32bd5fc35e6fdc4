"""Upper bounds on a pipeline's throughput."""

from __future__ import annotations

from dataclasses import asdict, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from planner.solve.speed.bound import speed_bound
from planner.solve.speed.speed import SpeedBound
from planner.values import frozen

if TYPE_CHECKING:
    from planner.ray.pipelines import Pipeline


@frozen
class Throughput:
    """A bound, not a forecast: no run is faster, and most are slower."""

    speed: SpeedBound
    """Of one replica, with as many concurrent rows as it receives."""
    replicas: int
    """Replicas that receive rows: with few rows some engines get no batch."""
    rows_per_second_per_replica: float
    rows_per_second: float
    """At most, over all replicas."""
    at_least_seconds: float | None
    """For all rows; None where their number is unknown."""
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return the bound as plain values, without the plan."""
        return {
            "replicas": self.replicas,
            "rows_per_second_per_replica": self.rows_per_second_per_replica,
            "rows_per_second": self.rows_per_second,
            "at_least_seconds": self.at_least_seconds,
            "why": self.why,
            "load": asdict(self.speed.load),
        }


def throughput(pipeline: Pipeline) -> Throughput | None:
    """Return the bound for the maximum number of replicas; None without a load.

    A replica completes at most (tokens per second) / (tokens of an answer) rows per
    second; a row without an answer takes at least its prefill. Model loading, the other
    stages and the tail of the last batches are ignored. None too where vLLM does not
    start.

    Raises:
        PlannerError: where vLLM refuses the length, or the GPU's bandwidth is unknown.
    """
    load = pipeline.load
    if load is None or pipeline.plan.resolved is None:
        return None
    rows = pipeline.rows_in_flight
    if pipeline.num_rows is not None:
        rows = min(rows, pipeline.num_rows)
    speed = speed_bound(pipeline.plan, replace(load, requests=rows))
    each = _rows_per_second(speed)
    replicas = replicas_used(pipeline)
    bound = Throughput(
        speed=speed,
        replicas=replicas,
        rows_per_second_per_replica=each,
        rows_per_second=replicas * each,
        at_least_seconds=_seconds(pipeline.num_rows, replicas * each, speed),
        why="",
    )
    return replace(bound, why=_why(bound, pipeline.num_rows))


def replicas_used(pipeline: Pipeline) -> int:
    """Return how many engines can work at the same time: each needs a batch of rows."""
    most = pipeline.replicas_maximum
    if pipeline.num_rows is None:
        return most
    return min(most, ceil(pipeline.num_rows / pipeline.batch_size))


def _rows_per_second(speed: SpeedBound) -> float:
    load = speed.load
    if load.mean_output > 1:
        return speed.total_at_most_tokens_per_second / (load.mean_output - 1)
    return 1 / speed.prefill_at_least_seconds * speed.requests


def _seconds(num_rows: int | None, total: float, speed: SpeedBound) -> float | None:
    if num_rows is None:
        return None
    return max(num_rows / total, speed.request_at_least_seconds)


def _why(bound: Throughput, num_rows: int | None) -> str:
    speed = bound.speed
    text = (
        f"{speed.requests:,} rows at once in a replica: at most "
        f"{speed.total_at_most_tokens_per_second:,.0f} tokens per second, "
        f"{bound.rows_per_second_per_replica:,.2f} rows per second; "
        f"{bound.replicas} replicas: {bound.rows_per_second:,.2f}."
    )
    if bound.at_least_seconds is None:
        return text
    return f"{text} {num_rows:,} rows take at least {_time(bound.at_least_seconds)}."


def _time(seconds: float) -> str:
    """Write a duration in a readable unit."""
    if seconds < 100:  # noqa: PLR2004 - seconds
        return f"{seconds:,.1f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:,.0f} minutes"
    return f"{seconds / 3600:,.1f} hours"
