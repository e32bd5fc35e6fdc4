"""Medians over models with the bounds of nine of ten starts: how parts are fitted."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tools.starts import Start

LEAST_WIDTH_GIB = 0.12
# So few starts hardly show the whole range.
FEW_STARTS, STRETCH = 10, 1.5
TWO = 2
SOURCE = (
    "published start-ups of vLLM (each with its address in the corpus of the project), "
    "less the lines that follow from vLLM's code"
)


@dataclass(frozen=True)
class Sample:
    """What one start leaves for a fit."""

    start: Start
    gib: float


def entry(samples: Sequence[Sample]) -> dict[str, Any]:
    """Write a fitted part: the median over models, bounds and residuals."""
    by_model = grouped(samples)
    medians = [statistics.median(values) for values in by_model.values()]
    middle = statistics.median(medians)
    values = sorted(sample.gib for sample in samples)
    low, high = bounds(values, middle)
    return {
        "gib": round(middle, 3),
        "low_gib": round(low, 3),
        "high_gib": round(high, 3),
        "left_out_error_gib": left_out_error(by_model),
        "starts": {s.start.name: round(s.gib - middle, 3) for s in samples},
    }


def grouped(samples: Iterable[Sample]) -> dict[str, list[float]]:
    """Return the values by model."""
    by_model: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        by_model[sample.start.model].append(sample.gib)
    return by_model


def bounds(
    values: Sequence[float], middle: float, part: int = 20
) -> tuple[float, float]:
    """Return what nine of ten values lie between, never narrower than a little.

    One of `part` values is left out at each end.
    """
    cut = len(values) // part
    stretch = STRETCH if len(values) < FEW_STARTS else 1.0
    low = middle - stretch * (middle - values[cut])
    high = middle + stretch * (values[-1 - cut] - middle)
    return min(low, middle - LEAST_WIDTH_GIB), max(high, middle + LEAST_WIDTH_GIB)


def left_out_error(by_model: dict[str, list[float]]) -> float | None:
    """Return the mean error on a model whose own starts are left out of the median."""
    if len(by_model) < TWO:
        return None
    errors = []
    for left_out, values in by_model.items():
        others = [statistics.median(v) for m, v in by_model.items() if m != left_out]
        errors += [abs(value - statistics.median(others)) for value in values]
    return round(statistics.fmean(errors), 3)
