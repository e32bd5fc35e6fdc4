"""Published start-ups with adapters, drafts, offloading or encoders, one by one.

They are few, and many lack the model's config or the GPU: each has a row, and one that
cannot be planned says why.
"""

from __future__ import annotations

from collections.abc import Iterable
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
"""Which kernel experts run on is not modelled; the table names rows that chose one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRow:
    """What a start has, and planned beside measured; `reason` where it has no plan."""

    start: str
    release: str
    features: str
    weights: str = ""
    kv_cache: str = ""
    budget: str = ""
    reason: str = ""


def feature_rows(records: Iterable[dict[str, Any]]) -> list[FeatureRow]:
    """Plan every start that has one of the features, with all its arguments."""
    found = [(record, _features(record)) for record in records]
    return [_row(record, names) for record, names in found if names]


def as_table(rows: list[FeatureRow]) -> str:
    """Write those that can be planned as a table, and count the others by reason."""
    lines = [
        "| start | release | with | weights, planned / measured GiB | KV cache | "
        "encoder budget, tokens |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row.start} | {row.release} | {row.features} | {row.weights or '-'} | "
        f"{row.kv_cache or '-'} | {row.budget or '-'} |"
        for row in rows
        if not row.reason
    ]
    left = [row for row in rows if row.reason]
    reasons: dict[str, list[str]] = {row.reason: [] for row in left}
    for row in left:
        reasons[row.reason].append(row.start)
    others = [
        f"- {reason}: {len(starts)} ({', '.join(starts)})"
        for reason, starts in reasons.items()
    ]
    return "\n".join([*lines, "", "Not planned, and why:", "", *others])


def _features(record: dict[str, Any]) -> list[str]:
    given = record["args"] or {}
    names = [name for name in FEATURES if given.get(name)]
    if record["measured"].get("encoder_budget_tokens"):
        names.append(ENCODER_BUDGET)
    if names:
        names += [f"{name} left out" for name in LEFT_OUT if given.get(name)]
    return names


def _row(record: dict[str, Any], names: list[str]) -> FeatureRow:
    given = {
        "start": record["id"],
        "release": record["vllm_version"] or "?",
        "features": ", ".join(names),
    }
    reason = _lacking(record)
    if reason:
        return FeatureRow(**given, reason=reason)
    try:
        plan = planner.plan(
            configs.folder(record["config"]),
            gpu_of(record) or "H100",
            vllm_version=record["vllm_version"],
            entrypoint=record.get("entrypoint", "serve"),
            **{k: v for k, v in record["args"].items() if k not in LEFT_OUT},
        )
    except PlannerError as error:
        return FeatureRow(**given, reason=f"{type(error).__name__}: {error}")
    return _compared(plan, record, given)


def _lacking(record: dict[str, Any]) -> str:
    """Say what a record lacks for a plan; a GPU is not needed for weights alone."""
    if not record["vllm_version"]:
        return "its release is not known"
    if number_of(record["vllm_version"]) < number_of(OLDEST):
        return f"older than {OLDEST}"
    if not record["config"]:
        return "the model's config.json is not known"
    return ""


def _compared(
    plan: planner.Plan, record: dict[str, Any], given: dict[str, str]
) -> FeatureRow:
    measured = record["measured"]
    rank = plan.ranks[0] if plan.ranks else None
    run = rank.profile_run if rank else None
    if rank is None or run is None:
        return FeatureRow(**given, reason=f"refused: {plan.error}")
    weights = rank.allocated_weights_bytes / GIB
    kv_cache = plan.to_dict()["available_kv_cache_bytes"] / GIB
    knows_gpu = record["gpu"] is not None
    return FeatureRow(
        **given,
        weights=_beside(weights, measured.get("weights_gib"), "{:.2f}"),
        kv_cache=_beside(
            kv_cache, measured.get("available_kv_gib") if knows_gpu else None, "{:.2f}"
        ),
        budget=_beside(
            encoder_budget_tokens(run), measured.get("encoder_budget_tokens"), "{:,.0f}"
        ),
    )


def _beside(planned: float, measured: float | None, form: str) -> str:
    if measured is None:
        return ""
    return f"{form.format(planned)} / {form.format(measured)}"
