"""Recorded dry runs beside their plans: what vLLM itself says without a GPU."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import planner
from planner.errors import PlannerError
from planner.show.certainty import features_of
from planner.units import GIB
from tools.configs import folder, index, named

ROWS = Path(__file__).parents[1] / "tests" / "data" / "dry"
PERCENT, CLOSE_GIB = 0.01, 0.02


@dataclass(frozen=True, kw_only=True)
class DryRow:
    """One dry run: weights and peak, planned beside vLLM's own."""

    release: str
    gpu: str
    architecture: str
    family: str
    features: tuple[str, ...]
    weights_share: float
    """Planned by vLLM's own."""
    peak_error_gib: float

    @property
    def has_equal_weights(self) -> bool:
        """Whether weights are within a percent."""
        return abs(self.weights_share - 1) <= PERCENT

    @property
    def has_close_peak(self) -> bool:
        """Whether the peak is within 0.02 GiB."""
        return abs(self.peak_error_gib) <= CLOSE_GIB

    def as_record(self) -> list[Any]:
        """Return what the page's "How sure is this?" keeps of a dry run."""
        minor = ".".join(self.release.split(".")[:2])
        error, equal = round(self.peak_error_gib, 3), int(self.has_equal_weights)
        return [minor, self.gpu, self.architecture, list(self.features), error, equal]


def dry_rows() -> list[DryRow]:
    """Plan every recorded dry run whose model the planner reads."""
    files = sorted(ROWS.glob("vllm-*.jsonl"))
    found = (
        _row(json.loads(line), path.stem.removeprefix("vllm-"))
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
    )
    return [row for row in found if row is not None]


def _row(row: dict[str, Any], release: str) -> DryRow | None:
    if row.get("peak") is None or "weights" not in row:
        return None
    try:
        plan = planner.plan(
            _config(row["model"], is_mended=row.get("mended", False)),
            gpu=row["gpu"],
            vllm_version=release,
            **row["args"],
        )
    except PlannerError:
        return None
    if not plan.ranks or plan.model is None:
        return None
    rank = plan.ranks[0]
    kind = "experts" if plan.model.is_moe else "dense"
    return DryRow(
        release=release,
        gpu=plan.gpu.name,
        architecture=plan.model.architecture,
        family=f"{kind}, with encoders" if plan.model.towers else kind,
        features=features_of(plan),
        weights_share=rank.allocated_weights_bytes / row["weights"],
        peak_error_gib=(rank.line("peak activation").size_bytes - row["peak"]) / GIB,
    )


def _config(model: str, *, is_mended: bool) -> str:
    """Return the config of the start: older ones were not mended.

    They had no modules.json either.
    """
    for row in index():
        if not is_mended and row["model"] == model and {"mended", "modules"} & set(row):
            return str(folder(row["dir"]))
    return named(model)
