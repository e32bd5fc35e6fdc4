"""Published start-ups with adapters, drafts, offloading or encoders.

They are few, and many lack the model's config or the GPU: those that cannot be planned
are counted by the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import planner
from planner.engine.releases import OLDEST, number_of
from planner.errors import PlannerError
from planner.memory.media.encoder import encoder_budget_tokens
from planner.units import GIB
from tools import configs
from tools.starts import gpu_of

FEATURES = (
    "enable_lora",
    "speculative_config",
    "cpu_offload_gb",
    "kv_offloading_size",
    "limit_mm_per_prompt",
)
ENCODER_BUDGET = "encoder budget"
LEFT_OUT = ("moe_backend",)
"""Which kernel experts run on is not modelled."""

Pair = tuple[float, float]
"""Planned and measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRow:
    """What a start has, and planned beside measured; `reason` where it has no plan."""

    features: tuple[str, ...]
    weights: Pair | None = None
    kv_cache: Pair | None = None
    budget: Pair | None = None
    reason: str = ""


def feature_rows(records: Iterable[dict[str, Any]]) -> list[FeatureRow]:
    """Plan every start that has one of the features, with all its arguments."""
    found = [(record, _features(record)) for record in records]
    return [_row(record, names) for record, names in found if names]


def as_table(rows: Sequence[FeatureRow]) -> str:
    """Write the largest errors by feature, and count those without a plan."""
    planned = [row for row in rows if not row.reason]
    names = dict.fromkeys(name for row in planned for name in row.features)
    lines = [
        "| with | starts | weights: largest error, GiB | KV cache known: largest "
        "error, GiB | encoder budgets alike |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name in names:
        having = [row for row in planned if name in row.features]
        weights = [row.weights for row in having if row.weights]
        caches = [row.kv_cache for row in having if row.kv_cache]
        budgets = [row.budget for row in having if row.budget]
        alike = sum(round(one) == measured for one, measured in budgets)
        same = f"{alike} of {len(budgets)}" if budgets else "-"
        lines.append(
            f"| {name} | {len(having)} | {_largest(weights)} | "
            f"{len(caches)}: {_largest(caches)} | {same} |"
        )
    reasons = Counter(row.reason for row in rows if row.reason)
    others = [f"{count} because {reason}" for reason, count in reasons.items()]
    return "\n".join([*lines, "", f"Not planned: {', '.join(others)}."])


def _largest(pairs: Sequence[Pair]) -> str:
    errors = [planned - measured for planned, measured in pairs]
    return f"{max(errors, key=abs):+.2f}" if errors else "-"


def _features(record: dict[str, Any]) -> list[str]:
    given = record["args"] or {}
    names = [name for name in FEATURES if given.get(name)]
    if record["measured"].get("encoder_budget_tokens"):
        names.append(ENCODER_BUDGET)
    return names


def _row(record: dict[str, Any], names: list[str]) -> FeatureRow:
    features = tuple(names)
    reason = _lacking(record)
    if reason:
        return FeatureRow(features=features, reason=reason)
    try:
        plan = planner.plan(
            configs.folder(record["config"]),
            gpu_of(record) or "H100",
            vllm_version=record["vllm_version"],
            entrypoint=record.get("entrypoint", "serve"),
            **{k: v for k, v in record["args"].items() if k not in LEFT_OUT},
        )
    except PlannerError as error:
        return FeatureRow(features=features, reason=str(error))
    return _compared(plan, record, features)


def _lacking(record: dict[str, Any]) -> str:
    """Say what a record lacks for a plan; a GPU is not needed for weights alone."""
    if not record["vllm_version"]:
        return "its release is not known"
    if number_of(record["vllm_version"]) < number_of(OLDEST):
        return f"it is older than {OLDEST}"
    if not record["config"]:
        return "the model's config.json is not known"
    return ""


def _compared(
    plan: planner.Plan, record: dict[str, Any], features: tuple[str, ...]
) -> FeatureRow:
    measured = record["measured"]
    rank = plan.ranks[0] if plan.ranks else None
    run = rank.profile_run if rank else None
    if rank is None or run is None:
        message = plan.error.message if plan.error else "it has no memory of a GPU"
        return FeatureRow(
            features=features, reason=f"vLLM refuses: {message.rstrip('.')}"
        )
    weights = rank.allocated_weights_bytes / GIB
    kv_cache = plan.to_dict()["available_kv_cache_bytes"] / GIB
    knows_gpu = record["gpu"] is not None
    return FeatureRow(
        features=features,
        weights=_beside(weights, measured.get("weights_gib")),
        kv_cache=_beside(
            kv_cache, measured.get("available_kv_gib") if knows_gpu else None
        ),
        budget=_beside(
            encoder_budget_tokens(run), measured.get("encoder_budget_tokens")
        ),
    )


def _beside(planned: float, measured: float | None) -> Pair | None:
    return None if measured is None else (planned, measured)
