"""Lesson 5: predict, run vLLM, explain the difference."""

from __future__ import annotations

from typing import Any

from planner.learn.account import line_of, rank_of, recorded, why
from planner.learn.catalogue import checkpoint
from planner.learn.parts import Condition, holds, made_plan, of_model, takes
from planner.learn.starts import published
from planner.planning.result import Plan
from planner.units import GIB

_LENGTH, _AT_ONCE = 4096, 4
_MOST = 0.4


MADE = {
    "5.5": made_plan(
        of_model("Qwen/Qwen3-0.6B"),
        Condition(
            text="be for the machine of the recorded run",
            is_met=lambda plan: (
                plan.gpu.total_memory_bytes == checkpoint(5).gpu.total_memory_bytes
            ),
            yours=lambda plan: f"is for {plan.gpu.name}",
        ),
        Condition(
            text=f"leave gpu_memory_utilization at {_MOST} or below",
            is_met=lambda plan: (
                plan.resolved is not None
                and plan.resolved.gpu_memory_utilization <= _MOST
            ),
            yours=lambda plan: (
                f"has {plan.resolved.gpu_memory_utilization:g}" if plan.resolved else ""
            ),
        ),
        takes(_LENGTH),
        holds(_AT_ONCE, _LENGTH),
        example=lambda: checkpoint(5).changed(
            max_model_len=_LENGTH, gpu_memory_utilization=0.36
        ),
        how="Make one with small.changed(...).",
    ),
}


def figures() -> dict[str, Any]:
    """Return the figures of the lesson's words by name."""
    small, answer = checkpoint(5), MADE["5.5"].example()
    return {
        **_planned(small),
        **_measured(small),
        **_missed(),
        "answer_why": why(answer, "KV cache"),
        "answer_tokens": answer.kv_cache_size_tokens,
        "command": answer.command(),
    }


def _planned(small: Plan) -> dict[str, Any]:
    rank, total = rank_of(small), small.gpu.total_memory_bytes
    requested, kv_cache = rank.requested_memory_bytes, rank.available_kv_cache_bytes
    weights = line_of(small, "weights").size_bytes
    return {
        "weights": weights,
        "weights_in_bfloat16": weights // 2,
        "weights_in_bits": weights * 8,
        "weights_why": why(small, "weights"),
        "total": total,
        "total_by_default": round(total * 0.92),
        "requested": requested,
        "kv_cache": kv_cache,
        "all_but_cache": requested - kv_cache,
        "share_without_weights": requested - weights,
        "of_the_whole_computer": total - requested + kv_cache,
        "computer_without_weights": total - weights,
        "tokens": small.kv_cache_size_tokens,
        "blocks": small.num_gpu_blocks,
        "bytes_per_block": rank.bytes_per_block,
        "block_size": small.kv_groups[0].block_size,
    }


def _measured(small: Plan) -> dict[str, Any]:
    record = recorded()
    logged = record.compare().measurement.log.figures
    sizes = {
        name: round(logged[f"{name}_gib"] * GIB)
        for name in ("available_kv", "consumed", "requested")
    }
    tokens = int(logged["kv_tokens"])
    blocks = tokens // small.kv_groups[0].block_size
    lines = record.said("Auto set", "KV cache size")
    return {
        **{f"logged_{name}": size for name, size in sizes.items()},
        "logged_tokens": logged["kv_tokens"],
        "logged_length": logged["max_concurrency_len"],
        "logged_blocks": blocks,
        "blocks_of_16": tokens // 16,
        "logged_bytes_per_block": sizes["available_kv"] // blocks,
        "record": lines.text,
        "log": lines.code,
    }


def _missed() -> dict[str, Any]:
    """Return figures of the start that the plan missed, and with a larger share."""
    first, second = published().starts[2:4]
    rank, peak = rank_of(first.plan), line_of(first.plan, "peak activation").size_bytes
    return {
        "off": abs(first.error_bytes),
        "outside": first.kv_cache_bytes - rank.available_kv_cache_high_bytes,
        "first": first.what,
        "first_planned": rank.available_kv_cache_bytes,
        "first_logged": first.kv_cache_bytes,
        "second": second.what,
        "second_planned": rank_of(second.plan).available_kv_cache_bytes,
        "second_logged": second.kv_cache_bytes,
        "peak": peak,
        "peak_that_explains": peak + first.error_bytes,
        "peak_why": why(first.plan, "peak activation"),
    }
