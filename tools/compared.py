"""Each published start beside its plan, as one row of figures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from planner.engine.releases import number_of
from planner.engine.releases.shared import SUBTRACTS_CONSUMED
from planner.show.certainty import features_of
from planner.units import GIB
from tools.starts import OTHER_BUILDS, Start

FLAT_RESERVE_GIB = 2.5
"""What the naive rival takes off beside the weights, whatever the model."""
LINES = {
    "weights": "weights_gib",
    "peak activation": "activation_gib",
    "non-torch": "non_torch_gib",
    "CUDA graphs, as captured": "cudagraph_gib",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One start: what was measured, what the plan says, and the naive rival."""

    start: str
    source: str
    release: str
    gpu: str
    family: str
    architecture: str
    features: tuple[str, ...]
    model: str
    tensor_parallel_size: int
    measured_gib: float
    """Available KV cache memory that the log states."""
    planned_gib: float
    low_gib: float
    high_gib: float
    rival_gib: float | None
    line_errors_gib: dict[str, float]
    concurrency_error_percent: float | None

    @property
    def error_gib(self) -> float:
        """Planned less measured."""
        return self.planned_gib - self.measured_gib

    @property
    def is_patched(self) -> bool:
        """Whether a build of somebody's own was started, not a release."""
        return self.start.startswith(OTHER_BUILDS)

    @property
    def is_inside(self) -> bool:
        """Whether the measured figure lies in the range, to the log's rounding."""
        return self.low_gib - 0.01 <= self.measured_gib <= self.high_gib + 0.01

    def flat(self) -> dict[str, Any]:
        """Return the row for a table of raw figures."""
        values = asdict(self)
        errors = values.pop("line_errors_gib")
        values["features"] = ", ".join(self.features)
        return values | {f"{name} error_gib": error for name, error in errors.items()}


def rows_of(starts: Iterable[Start]) -> list[Row]:
    """Return a row for every start whose log states the KV cache memory."""
    rows = [_row(start) for start in starts]
    found = [row for row in rows if row is not None]
    return sorted(found, key=lambda row: (number_of(row.release), row.gpu, row.start))


def _row(start: Start) -> Row | None:
    measured = start.logged("available_kv_gib")
    if measured is None:
        return None
    plan, rank = start.plan.to_dict(), start.rank
    model = start.plan.model
    total = start.record.get("total_gpu_gib") or plan["gpu"]["total_memory_bytes"] / GIB
    weights = start.logged("weights_gib")
    rival = None
    if weights is not None:
        share = plan["resolved"]["gpu_memory_utilization"]
        rival = share * total - weights - FLAT_RESERVE_GIB
    return Row(
        start=start.name,
        source=start.record["source"],
        release=start.plan.vllm_version,
        gpu=start.plan.gpu.name,
        family=family(start),
        architecture=model.architecture if model else "",
        features=features_of(start.plan),
        model=start.model.replace("--", "/"),
        tensor_parallel_size=start.ranks,
        measured_gib=measured,
        planned_gib=round(rank.available_kv_cache_bytes / GIB, 3),
        low_gib=round(rank.available_kv_cache_low_bytes / GIB, 3),
        high_gib=round(rank.available_kv_cache_high_bytes / GIB, 3),
        rival_gib=None if rival is None else round(rival, 3),
        line_errors_gib=_line_errors(start, plan),
        concurrency_error_percent=_concurrency_error(start, plan),
    )


def _line_errors(start: Start, plan: dict[str, Any]) -> dict[str, float]:
    planned = {
        "weights": plan["allocated_weights_bytes"],
        "peak activation": plan["activation_bytes"],
        "non-torch": plan["non_torch_bytes"],
        "CUDA graphs, as captured": start.captured_graph_bytes,
    }
    # From 0.27 on the logged peak holds the estimate of the graphs as well.
    if start.run.release.has(SUBTRACTS_CONSUMED):
        rank = start.plan.limiting_rank
        charged = rank.line("CUDA graphs").size_bytes if rank else 0
        planned["peak activation"] += charged
    errors = {}
    for name, key in LINES.items():
        logged = start.logged(key)
        if logged is not None and logged > 0:
            errors[name] = round(planned[name] / GIB - logged, 3)
    return errors


def _concurrency_error(start: Start, plan: dict[str, Any]) -> float | None:
    logged = start.logged("max_concurrency")
    planned = float(plan["max_concurrency"])
    if not logged or not planned:
        return None
    return round(100 * (planned - logged) / logged, 2)


def family(start: Start) -> str:
    """Name the kind of model that decides which lines are large."""
    model = start.plan.model
    if model is None:
        return "unknown"
    kind = "experts" if model.is_moe else "dense"
    return f"{kind}, with encoders" if model.towers else kind


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values without their signs."""
    return statistics.fmean(abs(value) for value in values)


def median(values: Iterable[float]) -> float:
    """Return the median of the values without their signs."""
    return statistics.median(abs(value) for value in values)


def releases(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the errors of each minor release."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(".".join(row.release.split(".")[:2]), []).append(row)
    return {
        name: {
            "starts": len(group),
            "mean_error_gib": round(mean(row.error_gib for row in group), 3),
            "median_error_gib": round(median(row.error_gib for row in group), 3),
        }
        for name, group in groups.items()
    }


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the figures that the README and the app show."""
    shares = [
        100 * row.error_gib / row.measured_gib for row in rows if row.measured_gib > 1
    ]
    rivals = [
        row.rival_gib - row.measured_gib for row in rows if row.rival_gib is not None
    ]
    concurrency = [
        row.concurrency_error_percent
        for row in rows
        if row.concurrency_error_percent is not None
    ]
    weights = [
        row.line_errors_gib["weights"]
        for row in rows
        if "weights" in row.line_errors_gib
    ]
    return {
        "starts": len(rows),
        "kv_mean_error_gib": round(mean(row.error_gib for row in rows), 3),
        "kv_mean_error_of_releases_gib": round(
            mean(row.error_gib for row in rows if not row.is_patched), 3
        ),
        "patched_starts": sum(row.is_patched for row in rows),
        "kv_median_error_gib": round(median(row.error_gib for row in rows), 3),
        "kv_median_error_percent": round(median(shares), 2),
        "weights_mean_error_gib": round(mean(weights), 3),
        "weights_median_error_gib": round(median(weights), 4),
        "concurrency_median_error_percent": round(median(concurrency), 2),
        "inside_percent": round(100 * statistics.fmean(r.is_inside for r in rows), 1),
        "median_width_gib": round(
            statistics.median(row.high_gib - row.low_gib for row in rows), 2
        ),
        "rival_mean_error_gib": round(mean(rivals), 3),
        "rival_median_error_gib": round(median(rivals), 3),
        "releases": releases(rows),
        "published": [as_record(row) for row in rows],
    }


def as_record(row: Row) -> list[Any]:
    """Return what the page's "How sure is this?" keeps of a start."""
    minor = ".".join(row.release.split(".")[:2])
    error = round(row.error_gib, 3)
    features = list(row.features)
    return [minor, row.gpu, row.architecture, features, error, int(row.is_inside)]
