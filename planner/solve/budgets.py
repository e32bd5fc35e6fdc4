"""Edges of the memory that vLLM may use: the smallest share, and the smallest cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from planner.errors import PlannerError
from planner.inputs import Inputs
from planner.load import Load
from planner.serving import NULL_BLOCKS, Serving, serve
from planner.solve.searching import largest, smallest

STEP = 0.01
_FINEST = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of a GPU's memory that a user may type, as numbers of steps."""

    step: Fraction

    @classmethod
    def of(cls, step: object) -> Shares:
        """Return the shares in steps of so much.

        Raises:
            PlannerError: for a step that leaves no share to try.
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
        """Steps of the largest share, 1 or just below."""
        return int(1 / self.step)

    def share(self, steps: int) -> float:
        """Return so many steps as a share."""
        return float(self.step * steps)


def is_enough(serving: Serving) -> bool:
    """Whether a start has all it needs, whether or not so much is free.

    vLLM looks at what is free before it looks at what it needs. A budget that is too
    large for the GPU is no sign of a load that is too large for the budget.
    """
    error = serving.plan.error
    return serving.is_served or (error is not None and error.kind == "free_memory")


def at_share(
    inputs: Inputs, load: Load | None, shares: Shares
) -> Callable[[int], Serving]:
    """Return what plans a number of steps of `gpu_memory_utilization`, each once."""

    @cache
    def at(steps: int) -> Serving:
        return serve(inputs.changed(gpu_memory_utilization=shares.share(steps)), load)

    return at


def smallest_share(at: Callable[[int], Serving], shares: Shares) -> int | None:
    """Return the fewest steps that serve; None where no share does."""
    steps = smallest(lambda number: is_enough(at(number)), 1, shares.most)
    return steps if steps <= shares.most and at(steps).is_served else None


def largest_share(at: Callable[[int], Serving], shares: Shares) -> int:
    """Return the most steps that vLLM finds free when it starts; 1 where none are."""

    def is_free(steps: int) -> bool:
        error = at(steps).plan.error
        return error is None or error.kind != "free_memory"

    return max(1, largest(is_free, 1, shares.most, shares.most))


def smallest_bytes(inputs: Inputs, load: Load | None) -> tuple[int, _AtBytes]:
    """Return the fewest `kv_cache_memory_bytes` that serve, and what plans them.

    More than the GPU's memory where none do.
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


_AtBytes = Callable[[int], Serving]
