"""Lesson 4: activations, sampler, CUDA graphs, utilization, and out of memory."""

from __future__ import annotations

from typing import Any

from planner.learn.account import line_of, message_of, rank_of, why
from planner.learn.catalogue import checkpoint
from planner.learn.parts import holds, keeps, made_plan, of_model, on_cards, takes
from planner.planning.planning import plan
from planner.planning.result import Plan

_FEWER = 64
_LENGTH, _TOKENS_AT_ONCE = 8192, 28_672
_HIGHER = 0.95

MADE = {
    "4.4": made_plan(
        of_model("Qwen/Qwen3-8B"),
        on_cards("L4"),
        takes(_LENGTH),
        holds(1, _TOKENS_AT_ONCE),
        keeps("quantization", None, "leave the weights as they are"),
        keeps("kv_cache_dtype", "auto", "leave the KV cache's dtype as it is"),
        keeps("enforce_eager", False, "keep its CUDA graphs"),
        example=lambda: plan(
            "Qwen/Qwen3-8B", gpu="L4", max_model_len=_LENGTH, max_num_seqs=_FEWER
        ),
    ),
}


def figures() -> dict[str, Any]:
    """Return the figures of the lesson's words by name."""
    desk, answer = checkpoint(4), MADE["4.4"].example()
    return {
        **_of_the_share(desk),
        **_of_fewer(desk),
        "failures": "\n".join(
            f"{name}: {message_of(failed)}" for name, failed in _failing(desk).items()
        ),
        "tokens": desk.kv_cache_size_tokens,
        "answer_why": why(answer, "KV cache"),
        "answer_tokens": answer.kv_cache_size_tokens,
        "command": answer.command(),
    }


def _of_the_share(desk: Plan) -> dict[str, Any]:
    higher = desk.changed(gpu_memory_utilization=_HIGHER)
    now, then = rank_of(desk), rank_of(higher)
    share = 0.0 if desk.resolved is None else desk.resolved.gpu_memory_utilization
    kv_cache, more = now.available_kv_cache_bytes, then.available_kv_cache_bytes
    between = now.requested_memory_bytes - now.line("weights").size_bytes - kv_cache
    return {
        "share": share,
        "higher": _HIGHER,
        "total": desk.gpu.total_memory_bytes,
        "requested": now.requested_memory_bytes,
        "kv_cache": kv_cache,
        "gained": more - kv_cache,
        "share_of_the_cache": round(kv_cache * (_HIGHER - share)),
        "share_of_the_request": round(now.requested_memory_bytes * (_HIGHER - share)),
        "whole_cache": more,
        "whole_request": then.requested_memory_bytes,
        "higher_why": why(higher, "KV cache"),
        "peak": line_of(desk, "peak activation").size_bytes,
        "between": between,
        "all_but_weights": between + kv_cache,
    }


def _of_fewer(desk: Plan) -> dict[str, Any]:
    fewer, name = desk.changed(max_num_seqs=_FEWER), "persistent buffers"
    before, after = (line_of(one, name).size_bytes for one in (desk, fewer))
    sequences = 1 if desk.resolved is None else desk.resolved.max_num_seqs
    return {
        "fewer": _FEWER,
        "buffers": after,
        "buffers_before": before,
        "buffers_of_one": before // sequences,
        "buffers_in_bits": after * 8,
        "buffers_why": why(desk, name),
        "fewer_why": why(fewer, name),
        "fewer_peak": why(fewer, "peak activation"),
    }


def _failing(desk: Plan) -> dict[str, Plan]:
    return {
        "larger_model": desk.changed(model="Qwen/Qwen3-14B"),
        "low_share": desk.changed(gpu_memory_utilization=0.7),
        "full_length": desk.changed(max_model_len=None),
        "high_share": desk.changed(gpu_memory_utilization=1.0),
    }
