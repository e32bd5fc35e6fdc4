"""Instances of one model on one GPU, each with the same share of it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.inputs import Inputs
from planner.load import Load
from planner.solve.budgets import Shares, at_share, smallest_share
from planner.solve.budgets import largest_share as largest_free
from planner.solve.searching import largest
from planner.solve.sharing import Instance, in_order, nth

_MOST = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualShares:
    """One model, the load of each instance, and the smallest share that serves it."""

    inputs: Inputs
    load: Load | None
    shares: Shares
    least: int | None
    """Steps of that share; None: not even one instance serves."""

    @classmethod
    def of(cls, inputs: Inputs, load: Load | None, shares: Shares) -> EqualShares:
        """Find the smallest share with which an instance serves its load."""
        least = smallest_share(at_share(inputs, load, shares), shares)
        return cls(inputs=inputs, load=load, shares=shares, least=least)

    def nth(self, steps: int, number: int) -> Instance:
        """Return the start of that number, all with so many steps of the GPU."""
        return nth(self._with_share(steps), self.load, number)

    def most(self) -> int:
        """Return how many start one after the other; 0 where not even one does."""
        steps = self.least
        if steps is None:
            return 0
        return largest(lambda k: self.nth(steps, k).is_served, 1, _MOST, 2)

    def alone(self) -> Instance:
        """Return one instance with the largest share that is free."""
        at = at_share(self.inputs, self.load, self.shares)
        return self.nth(largest_free(at, self.shares), 1)

    def largest_share(self, number: int) -> int:
        """Return the steps of the largest share with which so many start."""

        def starts(steps: int) -> bool:
            return self.nth(steps, number).is_served

        most = self.shares.most
        return largest(starts, self.least or 1, most, most // number)

    def started(self, steps: int, number: int) -> tuple[Instance, ...]:
        """Return so many starts in their order."""
        return in_order([self._with_share(steps)] * number, self.load)

    def _with_share(self, steps: int) -> Inputs:
        return self.inputs.changed(gpu_memory_utilization=self.shares.share(steps))
