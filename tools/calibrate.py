"""Fit what only a GPU can tell to published start-ups of vLLM.

    python tools/calibrate.py [--corpus FILE.jsonl]

Writes `planner/data/calibration/*.json`: the fitted figures, the starts behind each,
their residuals, and the error when a model's own starts are left out of its fit.
Run it again until nothing changes: what is left for one line depends on the others.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.engine.releases.shared import SUBTRACTS_CONSUMED

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.fit_non_torch import fit_non_torch, is_unified  # noqa: E402
from tools.fitting import SOURCE, Sample, bounds  # noqa: E402
from tools.starts import Start, chosen_starts, read_records, read_starts  # noqa: E402

DATA = ROOT / "planner" / "data" / "calibration"
# Less than nothing is left where a start ran something else than its record says: a
# FlashInfer that had been installed by hand samples with less memory, for one.
LEAST_LEFT_GIB = -0.2
# One of so many is left out at each end of the range of graphs.
GRAPHS_PART = 15
# A generation with fewer starts shares the pool of all.
LEAST_STARTS = 5
# Kernels differ by this much at least.
LEAST_MULTIPLE, MOST_MULTIPLE = 0.8, 1.2
SMALLEST_MULTIPLE = 0.5


def main() -> int:
    """Fit, write, and say what was fitted."""
    corpus, shared = chosen_starts(__doc__)
    starts = read_starts(corpus, shared=shared)
    DATA.mkdir(parents=True, exist_ok=True)
    write("non_torch", fit_non_torch(starts, read_records(corpus)))
    write("cudagraphs", fit_graphs(starts))
    write("experts", fit_experts(starts))
    return 0


def write(name: str, table: dict[str, Any]) -> None:
    """Write one table, a line per entry."""
    text = json.dumps(table, indent=1, sort_keys=True)
    (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")


# Routed experts ----------------------------------------------------------------


def fit_experts(starts: Sequence[Start]) -> dict[str, Any]:
    """Find between which multiples of the formula starts of experts lie.

    Apart for starts whose record states max_num_batched_tokens and those that leave it
    to a default, which builds of others have changed.
    """
    found = [s for s in starts if s.expert_gib and s.record["scored"]]
    return {
        "given": factors([s for s in found if s.run.is_batch_given]),
        "default": factors([s for s in found if not s.run.is_batch_given]),
        "source": SOURCE,
    }


def factors(starts: Sequence[Start]) -> dict[str, Any]:
    """Write the bounds of one group of starts, each as a multiple of the formula."""
    multiples = {}
    for start in starts:
        missing = missing_gib(start)
        if missing is None or is_unified(start):
            continue
        multiples[start.name] = round(1 + missing / start.expert_gib, 2)
    values = sorted(multiples.values())
    cut = len(values) // 10
    return {
        "low": min(LEAST_MULTIPLE, max(SMALLEST_MULTIPLE, values[cut])),
        "high": max(MOST_MULTIPLE, values[-1 - cut]),
        "starts": multiples,
    }


def missing_gib(start: Start) -> float | None:
    """Return by how much a peak exceeds the plan's; None where no log tells.

    As logged, else as the KV cache that is missing.
    """
    peak, kv = start.logged("activation_gib"), start.logged("available_kv_gib")
    if peak is not None:
        planned = start.line_gib("peak activation")
        if start.run.release.has(SUBTRACTS_CONSUMED):
            planned += start.line_gib("CUDA graphs")
        return peak - planned
    if kv is None:
        return None
    return start.plan.ranks[0].available_kv_cache_bytes / (1 << 30) - kv


# CUDA graphs ------------------------------------------------------------------


def fit_graphs(starts: Sequence[Start]) -> dict[str, Any]:
    """Fit pool and bytes per layer and graph to estimates and to what was taken.

    Where GPU and processor share their memory the figures are differences of what all
    programs leave: they are not fitted.
    """
    usable = [s for s in starts if s.is_usable and not is_unified(s)]
    estimated = [
        Sample(s, s.measured["cudagraph_estimated_gib"])
        for s in usable
        if s.logged("cudagraph_estimated_gib") and s.number < (0, 29, 0)
    ]
    # Up to 0.17 the figure is a difference of free memory that may even be negative.
    actual = [
        Sample(s, s.measured["cudagraph_gib"])
        for s in usable
        if (s.logged("cudagraph_gib") or 0) > 0 and s.layers_and_graphs
        if s.number < (0, 11, 0) or s.number >= (0, 17, 0)
    ]
    return {
        "estimated": graph_entry(estimated),
        "actual": graph_entry(actual),
        "source": SOURCE,
    }


def graph_entry(samples: Sequence[Sample]) -> dict[str, Any]:
    """Write a fit of graphs with its residuals and the error on models left out."""
    fit = fitted(samples)
    shares = [s.gib / fit.of(s.start) for s in samples]
    low, high = bounds(sorted(shares), 1.0, part=GRAPHS_PART)
    models = sorted({s.start.model for s in samples})
    errors = []
    for model in models:
        others = fitted([s for s in samples if s.start.model != model])
        errors += [
            abs(s.gib - others.of(s.start)) for s in samples if s.start.model == model
        ]
    return {
        "pool_gib": {key: round(value, 3) for key, value in fit.pools.items()},
        "mib_per_layer_and_graph": round(fit.slope * 1024, 4),
        "latent_weight": round(fit.latent_weight, 2),
        "low_share": round(low, 2),
        "high_share": round(high, 2),
        "left_out_error_gib": round(statistics.fmean(errors), 3),
        "starts": {s.start.name: round(s.gib - fit.of(s.start), 3) for s in samples},
    }


@dataclass(frozen=True)
class Line:
    """Pool by generation, and GiB per layer and graph."""

    pools: dict[str, float]
    slope: float
    latent_weight: float = 1.0

    def of(self, start: Start) -> float:
        """Return what the fit says of a start, in GiB."""
        weight = self.latent_weight if start.is_latent else 1
        each = self.slope * weight * start.layers_and_graphs
        return self.pools[start.generation] + each


def fitted(samples: Sequence[Sample]) -> Line:
    """Fit layers of plain attention, then how many of them a latent one counts as."""
    line = least_absolute([s for s in samples if not s.start.is_latent])
    weights = [
        (s.gib - line.pools[s.start.generation])
        / (line.slope * s.start.layers_and_graphs)
        for s in samples
        if s.start.is_latent
    ]
    return replace(line, latent_weight=statistics.median(weights or [1.0]))


def least_absolute(samples: Sequence[Sample]) -> Line:
    """Find the slope and pools with the least absolute error: outliers pull little."""

    def pools(slope: float) -> dict[str, float]:
        rest: dict[str, list[float]] = {"Hopper and later": [], "earlier": []}
        for s in samples:
            rest[s.start.generation].append(s.gib - slope * s.start.layers_and_graphs)
        everything = [value for values in rest.values() for value in values]
        return {
            key: max(
                0.0,
                statistics.median(
                    values if len(values) >= LEAST_STARTS else everything
                ),
            )
            for key, values in rest.items()
        }

    def is_known(values: list[float]) -> bool:
        return len(values) >= LEAST_STARTS

    def error(slope: float) -> float:
        line = Line(pools(slope), slope)
        return sum(abs(s.gib - line.of(s.start)) for s in samples)

    slopes = [step * 1e-6 for step in range(501)]
    best = min(slopes, key=error)
    return Line(pools(best), best)


if __name__ == "__main__":
    sys.exit(main())
