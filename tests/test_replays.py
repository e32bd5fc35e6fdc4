"""Published start-ups: from the memory left follow the tokens they logged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import planner
from planner.units import GIB
from tools.configs import folder
from tools.starts import read_records

OTHER_CONFIG = ("repo-sridhar1804-logs-vllm-log",)
"""Phi-3-mini, whose config.json named a window of 2,047 tokens at the time."""
NOT_ABOUT_THE_CACHE = ("compilation_config", "moe_backend", "attention_backend")
ROUNDING_BYTES = GIB // 200
"""A log writes GiB with two digits: half of the last one."""


def replayable(row: dict[str, Any]) -> bool:
    """Whether a log says everything, of one pipeline stage."""
    measured, args = row["measured"], row["args"]
    return bool(
        row["scored"]
        and row["id"] not in OTHER_CONFIG
        and row["gpu"]
        and measured.get("started")
        and measured.get("available_kv_gib")
        and measured.get("max_concurrency")
        and args.get("pipeline_parallel_size", 1) == 1
        and "speculative_config" not in args
    )


def with_cache(row: dict[str, Any], config: Path, kv_bytes: float) -> planner.Plan:
    """Plan a start on a GPU of such a size that so much is left for the KV cache."""
    given = row["args"].items()
    args = {name: value for name, value in given if name not in NOT_ABOUT_THE_CACHE}
    gpu = planner.GPU.named(row["gpu"])
    version = row["vllm_version"]
    plan = planner.plan(config, gpu, vllm_version=version, **args)
    assert plan.resolved is not None
    missing = kv_bytes - plan.ranks[0].available_kv_cache_bytes
    total = gpu.total_memory_bytes + missing / plan.resolved.gpu_memory_utilization
    args["max_num_batched_tokens"] = plan.resolved.max_num_batched_tokens
    args["max_num_seqs"] = plan.resolved.max_num_seqs
    sized = planner.GPU.named(row["gpu"], total_memory_bytes=round(total))
    return planner.plan(config, sized, vllm_version=version, **args)


def differences(row: dict[str, Any], config: Path) -> list[str]:
    """Return what of a log does not lie between the ends of its rounding."""
    left = row["measured"]["available_kv_gib"] * GIB
    few, many = (
        with_cache(row, config, left + sign * ROUNDING_BYTES) for sign in (-1, 1)
    )
    logged = row["measured"]["max_concurrency"]
    found = []
    if not few.max_concurrency - 0.006 <= logged <= many.max_concurrency + 0.006:
        found.append(f"concurrency {logged}: {few.max_concurrency:.3f}")
    tokens = row["measured"].get("kv_tokens")
    low, high = few.kv_cache_size_tokens, many.kv_cache_size_tokens
    if tokens is not None and not low <= tokens <= high:
        found.append(f"tokens {tokens}: {low} to {high}")
    return [f"{row['id']} (vLLM {row['vllm_version']}): {text}" for text in found]


def test_logged_tokens_and_concurrency_follow_from_the_logged_memory() -> None:
    """Every release that is in the corpus, and every kind of KV cache."""
    chosen = [row for row in read_records() if replayable(row)]
    assert len(chosen) > 40
    wrong = []
    for row in chosen:
        wrong += differences(row, folder(row["config"]))
    assert [] == wrong
