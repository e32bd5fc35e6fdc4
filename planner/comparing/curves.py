"""Ready sweeps: context against concurrency, and GPUs against concurrency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.comparing.grid import Grid
from planner.comparing.lines import Curve
from planner.comparing.sweep import sweep
from planner.errors import PlannerError

if TYPE_CHECKING:
    from planner.result import Plan

_SHORTEST = 1024
_MOST_GPUS = 8


def context_against_concurrency(plan: Plan) -> Curve:
    """Plan lengths up to the model's own: how many requests of each fit at once.

    Every point is a plan of its own with that `max_model_len`. Its
    `figure()` draws them.

    Raises:
        PlannerError: when vLLM refuses the plan whatever its length.
    """
    grid = sweep(plan, over={"max_model_len": _lengths(plan)})
    return grid.lines("max_concurrency", x="max_model_len")


def _lengths(plan: Plan) -> list[int]:
    """Return powers of two and the middles between them, and the model's own length."""
    own = plan.changed(max_model_len=None)
    asked = plan.resolved
    known = own.resolved or asked
    if known is None:
        said = "" if plan.error is None else f" vLLM says: {plan.error.message}"
        raise PlannerError(f"No length of this plan starts.{said}")
    longest = max(known.max_model_len, asked.max_model_len if asked else 0)
    lengths = {longest} | ({asked.max_model_len} if asked else set())
    length = _SHORTEST
    while length < longest:
        lengths |= {length, min(length * 3 // 2, longest)}
        length *= 2
    return sorted(lengths)


def gpus_against_concurrency(plan: Plan, most_gpus: int = _MOST_GPUS) -> Curve:
    """Plan tensor parallel sizes 1, 2, 4, ...: how many requests each holds at once.

    Sizes that vLLM refuses are cells that say so. Its
    `figure()` draws them.

    Raises:
        PlannerError: when vLLM's rules do not know the model.
    """
    sizes = [1 << power for power in range(most_gpus.bit_length())]
    grid: Grid = sweep(plan, over={"tensor_parallel_size": sizes})
    return grid.lines("max_concurrency", x="gpus_total")
