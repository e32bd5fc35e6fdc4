"""How far past plans were off, for the very model, GPU and release of a plan.

`planner/data/accuracy.json` has a row for each published start and each dry run that
was compared; `make accuracy` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any

from planner.data import DATA
from planner.units import counted

if TYPE_CHECKING:
    from planner.models.architecture import ModelArchitecture
    from planner.planning.result import Plan

FEW = 3
"""With fewer starts, an error says little."""
_FLAGS = {
    "enable_lora": "adapters",
    "speculative_config": "a draft",
    "cpu_offload_gb": "offloaded weights",
    "kv_offloading_size": "offloaded KV blocks",
    "enable_expert_parallel": "expert parallel",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A published start, or a dry run, beside its plan."""

    release: str
    """Such as 0.19."""
    gpu: str
    architecture: str
    features: tuple[str, ...]
    error_gib: float
    """Of the KV cache; of a dry run, of the peak."""
    is_inside: bool
    """In the stated range; a dry run: weights within a percent."""


@cache
def accuracy() -> dict[str, Any]:
    """Return the figures of the accuracy report, which `make accuracy` writes."""
    path = DATA / "accuracy.json"
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


@cache
def compared(kind: str) -> tuple[Compared, ...]:
    """Return the rows of `published` starts or of `dry` runs."""
    return tuple(
        Compared(
            release=row[0],
            gpu=row[1],
            architecture=row[2],
            features=tuple(row[3]),
            error_gib=row[4],
            is_inside=bool(row[5]),
        )
        for row in accuracy()[kind]
    )


def features_of(plan: Plan) -> tuple[str, ...]:
    """Name what a plan has beside one GPU and a dense model in 16 bits."""
    settings, model, resolved = plan.settings, plan.model, plan.resolved
    others = dict(settings.others)
    asked = [
        name
        for key, name in _FLAGS.items()
        if getattr(settings, key, None) or others.get(key)
    ]
    layout = {
        "tensor parallel": settings.tensor_parallel_size,
        "pipeline parallel": settings.pipeline_parallel_size,
        "data parallel": settings.data_parallel_size,
    }
    found = [name for name, size in layout.items() if (size or 1) > 1]
    found += asked
    if model is not None:
        found += _of_model(model)
    if resolved is not None and resolved.kv_cache_dtype.startswith(("fp8", "nvfp4")):
        found.append("a quantised KV cache")
    return tuple(found)


def _of_model(model: ModelArchitecture) -> Iterator[str]:
    if model.is_moe:
        yield "experts"
    if model.is_multimodal:
        yield "encoders"
    if model.quantization:
        yield "quantised weights"


def record_sentences(plan: Plan) -> tuple[str, ...]:
    """Say what is not known of this plan's kind first, then how far others were off."""
    if plan.model is None:
        return ()
    minor = ".".join(plan.vllm_version.split(".")[:2])
    architecture = plan.model.architecture
    kinds: dict[str, Callable[[Compared], bool]] = {
        f"vLLM {minor}": lambda row: row.release == minor,
        plan.gpu.name: lambda row: row.gpu == plan.gpu.name,
        architecture: lambda row: row.architecture == architecture,
    }
    parts = {feature: _has(feature) for feature in features_of(plan)}
    starts, runs = compared("published"), compared("dry")
    groups = {
        kind: [row for row in starts if is_of(row)]
        for kind, is_of in (kinds | parts).items()
    }
    mine = [row for row in starts if all(is_of(row) for is_of in kinds.values())]
    dry = [r for r in runs if r.release == minor and r.architecture == architecture]
    known = {kind: groups[kind] for kind in kinds if len(groups[kind]) >= FEW}
    return (
        _unknown(groups),
        *([_of_starts("This model, GPU and release", mine)] if mine else []),
        *(_of_starts(kind, rows) for kind, rows in known.items()),
        *([_of_dry_runs(f"{architecture} with vLLM {minor}", dry)] if dry else []),
    )


def _has(feature: str) -> Callable[[Compared], bool]:
    return lambda row: feature in row.features


def _unknown(groups: dict[str, list[Compared]]) -> str:
    """Name the kinds without published starts, and those with few."""
    none = [kind for kind, rows in groups.items() if not rows]
    few = [kind for kind, rows in groups.items() if 0 < len(rows) < FEW]
    words = []
    if none:
        words.append(f"Not compared with any published start: {', '.join(none)}.")
    if few:
        words.append(f"Compared with one or two: {', '.join(few)}.")
    return (
        " ".join(words) or "Each part of this plan was compared with published starts."
    )


def _of_starts(kind: str, rows: Sequence[Compared]) -> str:
    errors = [abs(row.error_gib) for row in rows]
    inside = sum(row.is_inside for row in rows)
    return (
        f"{kind}: {counted(len(rows), 'published starts')}, KV cache "
        f"off by {median(errors):.2f} GiB in the median and {max(errors):.2f} at most; "
        f"{inside} in the stated range."
    )


def _of_dry_runs(kind: str, rows: Sequence[Compared]) -> str:
    errors = [abs(row.error_gib) for row in rows]
    equal = sum(row.is_inside for row in rows)
    return (
        f"{kind}: {counted(len(rows), 'dry runs')}, weights within 1 % in {equal}, "
        f"peak off by {median(errors):.2f} GiB in the median."
    )
