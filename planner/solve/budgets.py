"""Limits of the memory that vLLM may use: the smallest share, the smallest KV cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from planner.errors import PlannerError
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.serving import NULL_BLOCKS, Serving, serve
from planner.solve.search import largest, smallest

STEP = 0.01
_FINEST = 1e-6
_AtBytes = Callable[[int], Serving]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Possible values of `gpu_memory_utilization`, as multiples of a step."""

    step: Fraction

    @classmethod
    def of(cls, step: object) -> Shares:
        """Return the shares that are multiples of `step`.

        Raises:
            PlannerError: for a step that is not a number in range.
        """
        is_number = isinstance(step, int | float) and not isinstance(step, bool)
        if not is_number or not _FINEST <= float(str(step)) <= 1:
            raise PlannerError(
                f"step={step!r}: a number from {_FINEST:f} to 1 is needed, such as "
                "0.01."
            )
        return cls(step=Fraction(str(step)))

    @property
    def most(self) -> int:
        """Number of steps in the largest share, 1 or just below."""
        return int(1 / self.step)

    def share(self, steps: int) -> float:
        """Return a number of steps as a share."""
        return float(self.step * steps)


def is_enough(serving: Serving) -> bool:
    """Whether the budget is enough for a start, even if that much is not free.

    vLLM checks the free memory first. A budget that is too large for the GPU does not
    mean that the load is too large for the budget.
    """
    error = serving.plan.error
    return serving.is_served or (error is not None and error.kind == "free_memory")


def at_share(
    inputs: Inputs, load: Load | None, shares: Shares
) -> Callable[[int], Serving]:
    """Return a cached function from a number of steps to the start with that share."""

    @cache
    def at(steps: int) -> Serving:
        return serve(inputs.changed(gpu_memory_utilization=shares.share(steps)), load)

    return at


def smallest_share(at: Callable[[int], Serving], shares: Shares) -> int | None:
    """Return the fewest steps that serve; None where no share serves."""
    steps = smallest(lambda number: is_enough(at(number)), 1, shares.most)
    return steps if steps <= shares.most and at(steps).is_served else None


def largest_share(at: Callable[[int], Serving], shares: Shares) -> int:
    """Return the most steps that are free when vLLM starts, at least 1."""

    def is_free(steps: int) -> bool:
        error = at(steps).plan.error
        return error is None or error.kind != "free_memory"

    return max(1, largest(is_free, 1, shares.most, shares.most))


def smallest_bytes(inputs: Inputs, load: Load | None) -> tuple[int, _AtBytes]:
    """Return the fewest `kv_cache_memory_bytes` that serve, and what plans them.

    The number exceeds the GPU's memory where none serve.
    """

    @cache
    def at(size_bytes: int) -> Serving:
        return serve(inputs.changed(kv_cache_memory_bytes=size_bytes), load)

    total = inputs.plan().gpu.total_memory_bytes
    first = at(total)
    blocks = first.share * first.blocks_per_request + NULL_BLOCKS
    each = max((rank.bytes_per_block for rank in first.plan.ranks), default=1)
    guess = blocks * each
    most = max(total, guess)
    found = smallest(lambda size: is_enough(at(size)), 1, most, guess)
    return found, at
