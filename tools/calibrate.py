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
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from planner.engine.layout import UNIFIED  # noqa: E402
from tools.starts import Start, chosen_corpus, read_starts  # noqa: E402

DATA = ROOT / "planner" / "data" / "calibration"
LEAST_WIDTH_GIB = 0.12
# Less than nothing is left where a start ran something else than its record says: a
# FlashInfer that had been installed by hand samples with less memory, for one.
LEAST_LEFT_GIB = -0.2
# A generation with fewer starts shares the pool of all.
LEAST_STARTS = 5
# So few starts hardly show the whole range.
FEW_STARTS, STRETCH = 10, 1.5
TWO = 2
# Kernels differ by this much at least.
LEAST_MULTIPLE, MOST_MULTIPLE = 0.8, 1.2
SMALLEST_MULTIPLE = 0.5
HOPPER = (9, 0)


@dataclass(frozen=True)
class Sample:
    """What one start leaves for a fit."""

    start: Start
    gib: float


def main() -> int:
    """Fit, write, and say what was fitted."""
    starts = read_starts(chosen_corpus(__doc__))
    DATA.mkdir(parents=True, exist_ok=True)
    write("non_torch", fit_non_torch(starts))
    write("cudagraphs", fit_graphs(starts))
    write("experts", fit_experts(starts))
    return 0


def write(name: str, table: dict[str, Any]) -> None:
    """Write one table, a line per entry."""
    text = json.dumps(table, indent=1, sort_keys=True)
    (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")


# Non-torch memory -------------------------------------------------------------


def fit_non_torch(starts: Sequence[Start]) -> dict[str, Any]:
    """Fit each part to the starts that have it and only parts fitted before."""
    parts: dict[str, Any] = {}
    found = [Sample(s, gib) for s in starts if (gib := left_gib(s)) is not None]
    left = [s for s in found if s.gib > LEAST_LEFT_GIB or is_unified(s.start)]
    kinds: list[tuple[str, Callable[[Start], bool]]] = [
        ("modules, hopper", lambda s: is_bare(s) and s.capability == HOPPER),
        ("modules, other", lambda s: is_bare(s) and s.capability != HOPPER),
        ("graph profiling", is_profiled),
        *nccl_kinds(),
        ("start of NCCL, NVSwitch", lambda s: is_early(s) and has_switch(s)),
        ("start of NCCL, other", lambda s: is_early(s) and not has_switch(s)),
        ("segments that stay", lambda s: pins(s) and not is_unified(s)),
        ("unified memory", is_unified),
    ]
    for name, belongs in kinds:
        mine = [sample for sample in left if belongs(sample.start)]
        rest = [Sample(s.start, s.gib - known(s.start, parts, name)) for s in mine]
        parts[name] = entry(rest)
    parts |= fit_context(starts)
    aside = {s.start.name: round(s.gib, 3) for s in found if s not in left}
    return {"parts": parts, "set_aside": aside, "source": SOURCE}


def fit_context(starts: Sequence[Start]) -> dict[str, Any]:
    """Fit what is gone before vLLM's first snapshot: total less free memory."""
    gone = [
        Sample(s, s.record["total_gpu_gib"] - free)
        for s in starts
        if s.record.get("total_gpu_gib") and not is_unified(s)
        if (free := s.logged("free_at_start_gib")) is not None
    ]
    alone = [s for s in gone if s.start.run.layout.world_size == 1]
    context = entry(alone)
    spread = [
        Sample(s.start, s.gib - context["gib"])
        for s in gone
        if s.start.run.layout.world_size > 1 and s.start.number >= (0, 11, 0)
    ]
    return {
        "CUDA context": context,
        "start of NCCL beside the budget": entry(spread),
    }


SOURCE = (
    "published start-ups of vLLM (each with its address in the corpus of the project), "
    "less the lines that follow from vLLM's code"
)


def nccl_kinds() -> list[tuple[str, Callable[[Start], bool]]]:
    """Name what NCCL takes once it runs, by wires and number of ranks."""

    def runs(start: Start) -> bool:
        return start.ranks > 1 and not is_early(start) and not pins(start)

    return [
        (
            "NCCL, NVSwitch, two ranks",
            lambda s: runs(s) and has_switch(s) and s.ranks == TWO,
        ),
        (
            "NCCL, NVSwitch, more ranks",
            lambda s: runs(s) and has_switch(s) and s.ranks > TWO,
        ),
        ("NCCL, other", lambda s: runs(s) and not has_switch(s)),
    ]


def known(start: Start, parts: dict[str, Any], name: str) -> float:
    """Return the parts of a start that were fitted before this one."""
    return sum(
        float(parts[part]["gib"])
        for part in start.part_names
        if part in parts and part != name
    )


def left_gib(start: Start) -> float | None:
    """Return what a start's log leaves for non-torch memory; None where it is silent.

    The log's own figure where it has one; else the budget less everything else.
    """
    if not start.is_usable:
        return None
    if start.logged("non_torch_gib") is not None:
        return float(start.measured["non_torch_gib"]) - start.fused_gib
    kv = start.logged("available_kv_gib")
    if kv is None:
        return None
    weights = start.logged("weights_gib") or start.line_gib("weights")
    peak = start.line_gib("peak activation")
    graphs = start.line_gib("CUDA graphs")
    if graphs:
        graphs = start.logged("cudagraph_estimated_gib") or graphs
    kept = start.line_gib("persistent buffers")
    return start.requested_gib - kv - weights - peak - graphs - kept - start.fused_gib


def is_bare(start: Start) -> bool:
    """One rank, and no estimate of graphs that leaves something behind."""
    return (
        start.ranks == 1
        and not is_profiled(start)
        and not pins(start)
        and (not is_unified(start))
    )


def is_profiled(start: Start) -> bool:
    """One rank, where the estimate of graphs leaves something behind."""
    is_measured = (0, 18, 0) <= start.number < (0, 27, 0) and start.ranks == 1
    return is_measured and not start.is_eager and not is_unified(start)


def is_early(start: Start) -> bool:
    """Several ranks, whose start is counted."""
    return start.ranks > 1 and start.number < (0, 11, 0)


def pins(start: Start) -> bool:
    """A release that keeps segments charged."""
    return (0, 27, 0) <= start.number < (0, 31, 0)


def has_switch(start: Start) -> bool:
    """A GPU whose servers have NVSwitch."""
    return start.capability[0] in (9, 10)


def is_unified(start: Start) -> bool:
    """A GPU that shares the memory of the processor."""
    return start.capability in UNIFIED


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


def bounds(values: Sequence[float], middle: float) -> tuple[float, float]:
    """Return what nine of ten values lie between, never narrower than a little."""
    cut = len(values) // 20
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
        kv = start.logged("available_kv_gib")
        if kv is None or is_unified(start):
            continue
        missing = start.plan.ranks[0].available_kv_cache_bytes / (1 << 30) - kv
        multiples[start.name] = round(1 + missing / start.expert_gib, 2)
    values = sorted(multiples.values())
    cut = len(values) // 10
    return {
        "low": min(LEAST_MULTIPLE, max(SMALLEST_MULTIPLE, values[cut])),
        "high": max(MOST_MULTIPLE, values[-1 - cut]),
        "starts": multiples,
    }


# CUDA graphs ------------------------------------------------------------------


def fit_graphs(starts: Sequence[Start]) -> dict[str, Any]:
    """Fit pool and bytes per layer and graph to estimates and to what was taken."""
    estimated = [
        Sample(s, s.measured["cudagraph_estimated_gib"])
        for s in starts
        if s.is_usable and s.logged("cudagraph_estimated_gib") and s.number < (0, 29, 0)
    ]
    # Up to 0.17 the figure is a difference of free memory that may even be negative.
    actual = [
        Sample(s, s.measured["cudagraph_gib"])
        for s in starts
        if s.is_usable and (s.logged("cudagraph_gib") or 0) > 0 and s.num_graphs
        if s.number < (0, 11, 0) or s.number >= (0, 17, 0)
    ]
    return {
        "estimated": graph_entry(estimated),
        "actual": graph_entry(actual),
        "source": SOURCE,
    }


def graph_entry(samples: Sequence[Sample]) -> dict[str, Any]:
    """Write a fit of graphs with its residuals and the error on models left out."""
    fit = least_absolute(samples)
    residuals = sorted(s.gib - fit.of(s.start) for s in samples)
    low, high = bounds(residuals, 0.0)
    models = sorted({s.start.model for s in samples})
    errors = []
    for model in models:
        others = least_absolute([s for s in samples if s.start.model != model])
        errors += [
            abs(s.gib - others.of(s.start)) for s in samples if s.start.model == model
        ]
    return {
        "pool_gib": {key: round(value, 3) for key, value in fit.pools.items()},
        "mib_per_layer_and_graph": round(fit.slope * 1024, 4),
        "low_gib": round(low, 3),
        "high_gib": round(high, 3),
        "left_out_error_gib": round(statistics.fmean(errors), 3),
        "starts": {s.start.name: round(s.gib - fit.of(s.start), 3) for s in samples},
    }


@dataclass(frozen=True)
class Line:
    """Pool by generation, and GiB per layer and graph."""

    pools: dict[str, float]
    slope: float

    def of(self, start: Start) -> float:
        """Return what the fit says of a start, in GiB."""
        return self.pools[start.generation] + self.slope * start.layers_and_graphs


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
