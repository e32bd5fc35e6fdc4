"""What `vram_minimum_gb` of a recipe of vLLM should be, derived from its start.

    python -m tools.recipes_vram RECIPE.yaml... --gpu H200

A recipe states the memory of all its GPUs together as parameters x bytes x 1.2. Here it
is what the planned start takes: weights with what they become after loading, buffers,
activations, CUDA graphs and the KV cache of one request of the longest context, which
vLLM asks for, by the share of each GPU that vLLM may use. Of each variant a line; exit
status 1 where a recipe states less than that.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from planner.errors import PlannerError
from planner.models.architecture import ModelArchitecture
from planner.models.catalogue import entries
from planner.models.states import StateLayer
from planner.planning.result import Outcome, Plan
from planner.reading.recognising import all_in
from planner.units import GIB

RULE = 1.2
MARGIN = 1.005
"""What the start needs changes a little with the memory of its GPU."""
BYTES: Mapping[str | None, float] = {
    None: 2,
    "fp8": 1,
    "deepseek_v4_fp8": 1,
    "modelopt_fp4": 0.5,
    "gpt_oss_mxfp4": 0.5,
    "mxfp4": 0.5,
}
"""Bytes of a parameter by the recipes' rule; of other formats it is not told."""
_GB = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What one variant of a recipe states, and what its start needs."""

    path: str
    variant: str
    gpu: str
    gpus: int
    stated_gb: float | None
    needed_gb: int | None
    why: str = ""

    @property
    def is_too_small(self) -> bool:
        """Whether a machine with what is stated would not start it."""
        stated, needed = self.stated_gb, self.needed_gb
        return stated is not None and needed is not None and stated < needed

    def __str__(self) -> str:
        """Return it as one line."""
        where = f"{self.path} {self.variant} on {self.gpus} x {self.gpu}"
        if self.needed_gb is None:
            return f"{where}: not planned: {self.why}"
        stated = "nothing" if self.stated_gb is None else f"{self.stated_gb:g}"
        return f"{where}: states {stated}, needs {self.needed_gb}"


def needed_gib(plan: Plan) -> float | None:
    """Return the least memory of all GPUs on which a planned start comes up.

    In the GiB that a GPU's name counts: an H100 has 80. None where no figure is known.
    Models with states need room for one of each of max_num_seqs as well, and there it
    is searched for.
    """
    rank = plan.limiting_rank
    if rank is None or plan.resolved is None:
        return None
    share = plan.resolved.gpu_memory_utilization
    taken = rank.requested_memory_bytes - rank.available_kv_cache_bytes
    inside = (taken + plan.needed_kv_cache_bytes) / share
    outside = rank.outside_bytes / (1 - share) if share < 1 else 0
    least = max(inside, outside)
    if plan.model is not None and _has_states(plan.model):
        least = _searched(plan, least)
    return least * plan.gpus_total / GIB


def _has_states(model: ModelArchitecture) -> bool:
    return any(isinstance(layer, StateLayer) for layer in model.cache_layers)


def _searched(plan: Plan, least: float) -> float:
    """Return the memory of each GPU from which on a start comes up, within 1 %."""
    if _starts(plan, least * MARGIN):
        return least
    most = least * 2
    while not _starts(plan, most) and most < least * 16:
        most *= 2
    while most - least > 0.01 * least:
        middle = (least + most) / 2
        least, most = (least, middle) if _starts(plan, middle) else (middle, most)
    return most


def _starts(plan: Plan, total_bytes: float) -> bool:
    gpu = replace(plan.gpu, total_memory_bytes=int(total_bytes))
    return plan.changed(gpu=gpu).outcome in (Outcome.FITS, Outcome.TOO_CLOSE)


def rule_gb(plan: Plan) -> int | None:
    """Return what the recipes' rule states: parameters x bytes x 1.2, rounded up."""
    known = {entry.name: entry.num_parameters for entry in entries()}
    count = known.get(plan.name)
    if count is None or plan.resolved is None:
        return None
    size = BYTES.get(plan.resolved.quantization)
    return None if size is None else math.ceil(count * size * RULE / _GB)


def stated_in(path: Path, gpu: str) -> Iterator[Stated]:
    """Yield what each variant of a recipe states, beside what it needs on a GPU."""
    text = path.read_text(encoding="utf-8")
    variants: dict[str, Any] = (yaml.safe_load(text) or {}).get("variants") or {}
    for found in all_in(text):
        stated = (variants.get(found.shown) or {}).get("vram_minimum_gb")
        row: dict[str, Any] = {
            "path": str(path),
            "variant": found.shown,
            "stated_gb": stated,
        }
        try:
            plan = found.plan(gpu=found.gpu or gpu)
        except PlannerError as error:
            why = str(error)
            yield Stated(**row, gpu=gpu, gpus=found.gpus or 1, needed_gb=None, why=why)
            continue
        needed = needed_gib(plan)
        yield Stated(
            **row,
            gpu=plan.gpu.name,
            gpus=plan.gpus_total,
            needed_gb=None if needed is None else math.ceil(needed),
            why="" if plan.error is None else plan.error.message,
        )


def main() -> int:
    """Print a line for each variant; 1 where one states too little."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="+", type=Path)
    parser.add_argument("--gpu", required=True)
    given = parser.parse_args()
    rows = [row for path in given.recipes for row in stated_in(path, given.gpu)]
    for row in rows:
        mark = "::error::" if row.is_too_small else ""
        sys.stdout.write(f"{mark}{row}\n")
    return int(any(row.is_too_small for row in rows))


if __name__ == "__main__":
    sys.exit(main())
