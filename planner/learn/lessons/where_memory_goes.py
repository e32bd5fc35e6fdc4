"""Lesson 1: where the memory goes."""

from __future__ import annotations

from typing import Any

from planner.learn.account import line_of, rank_of, why
from planner.learn.catalogue import checkpoint
from planner.learn.parts import made_plan, of_model, on_cards, takes
from planner.planning.planning import plan
from planner.planning.result import Plan

_LONG, _SHORT = 12_000, 4096
_BETWEEN = ("persistent buffers", "peak activation", "non-torch", "CUDA graphs")

MADE = {
    "1.4": made_plan(
        of_model("Qwen/Qwen3-8B"),
        on_cards("L4"),
        takes(_LONG),
        example=lambda: plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=_LONG),
    ),
}


def figures() -> dict[str, Any]:
    """Return the figures of the lesson's words by name."""
    desk = checkpoint(1)
    longer = desk.changed(max_model_len=_LONG)
    return {
        "requests": desk.changed(max_model_len=_SHORT).max_concurrency,
        "of_full_length": desk.max_concurrency,
        "half_of_these": desk.max_concurrency / 2,
        "max_num_seqs": 0 if desk.resolved is None else desk.resolved.max_num_seqs,
        "tokens": desk.kv_cache_size_tokens,
        "short": _SHORT,
        "long": _LONG,
        "most_tokens": desk.max_model_len_that_fits or 0,
        "longer_cache": why(longer, "KV cache"),
        "longer_tokens": longer.kv_cache_size_tokens,
        "longer_requests": longer.max_concurrency,
        "command": MADE["1.4"].example().command(),
        **_sizes(desk),
    }


def _sizes(desk: Plan) -> dict[str, Any]:
    rank, total = rank_of(desk), desk.gpu.total_memory_bytes
    requested, kv_cache = rank.requested_memory_bytes, rank.available_kv_cache_bytes
    weights = line_of(desk, "weights").size_bytes
    between = sum(line_of(desk, name).size_bytes for name in _BETWEEN)
    graphs = line_of(desk, "CUDA graphs").size_bytes
    return {
        "total": total,
        "requested": requested,
        "weights": weights,
        "kv_cache": kv_cache,
        "kv_cache_why": why(desk, "KV cache"),
        "before_the_cache": requested - kv_cache,
        "card_without_weights": total - weights,
        "box_without_weights": (desk.gpu.nvml_memory_bytes or 0) - weights,
        "share_without_weights": requested - weights,
        "whole_card_without_graphs": total - weights - between + graphs,
        "whole_card": total - weights - between,
        "cache_with_graphs": kv_cache + graphs,
        "not_requested": total - requested,
        "share_without_between": requested - between,
    }
