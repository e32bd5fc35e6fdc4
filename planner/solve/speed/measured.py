"""What was fitted to published measurements, and how many are near a start.

The figures are in `planner/data/speed.json`, which `tools/fit_speed.py` writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from planner.data import DATA
from planner.planning.result import Plan
from planner.solve.speed.form import Kind, kind_of, memory_of
from planner.units import counted
from planner.values import frozen


@frozen
class Near:
    """How many measurements are near a start."""

    kind: Kind | None
    """None: no GPU of this kind was measured."""
    measurements: int = 0
    """With the same class of GPU, format and number of GPUs."""
    sources: int = 0
    of_class: int = 0
    """With the same class of GPU, and the same format or the same number of GPUs."""
    sources_of_class: int = 0

    @property
    def words(self) -> str:
        """What was measured near it."""
        if self.kind is None or not self.of_class:
            return "Nothing near it was measured: only the bound is known."
        kind = self.kind
        of = f"{kind.memory} memory, weights in {kind.weights}, {kind.gpus}"
        of += " GPU" if kind.gpus == "one" else " GPUs"
        if self.measurements:
            return (
                f"{counted(self.measurements, 'measurements')} of "
                f"{counted(self.sources, 'sources')} are near it: {of}."
            )
        return (
            f"No measurement has all of this: {of}. "
            f"{counted(self.of_class, 'measurements')} of "
            f"{counted(self.sources_of_class, 'sources')} have two of it."
        )


_BOTH = 2
"""Format and number of GPUs."""


@cache
def _table() -> Mapping[str, Any]:
    table: dict[str, Any] = json.loads(
        (DATA / "speed.json").read_text(encoding="utf-8")
    )
    return table


@cache
def parameters() -> Mapping[str, float]:
    """Return the fitted parameters by name."""
    return {one["name"]: one["value"] for one in _table()["parameters"]}


def range_factors(regime: str) -> Mapping[str, float]:
    """Return by what factor measurements differ from the forecast, by figure.

    Four of five do not differ by more, of sources to which nothing was fitted.
    """
    factors: Mapping[str, float] = _table()["ranges"][regime]
    return factors


def own_factors() -> Mapping[str, float]:
    """Return the same factors after one own measurement of the same start."""
    factors: Mapping[str, float] = _table()["own_ranges"]
    return factors


def near(plan: Plan) -> Near:
    """Return how many measurements are near a plan.

    Raises:
        PlannerError: for a plan that vLLM refuses.
    """
    memory = memory_of(plan.gpu)
    if memory is None:
        return Near(kind=None)
    kind = kind_of(plan, memory)
    same = [row for row in _table()["near"] if row["memory"] == memory]
    exact = [row for row in same if _shared(row, kind) == _BOTH]
    alike = [row for row in same if _shared(row, kind)]
    return Near(
        kind=kind,
        measurements=sum(row["measurements"] for row in exact),
        sources=len({source for row in exact for source in row["sources"]}),
        of_class=sum(row["measurements"] for row in alike),
        sources_of_class=len({source for row in alike for source in row["sources"]}),
    )


def _shared(row: Mapping[str, Any], kind: Kind) -> int:
    return int(row["weights"] == kind.weights) + int(row["gpus"] == kind.gpus)
