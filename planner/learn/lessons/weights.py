"""Lesson 2: weights, their number formats, and several GPUs."""

from __future__ import annotations

from math import ceil
from typing import Any

from planner.learn.account import line_of, part_bytes, rank_of, why
from planner.learn.catalogue import checkpoint
from planner.learn.parts import holds, made_plan, of_model, on_cards, takes
from planner.planning.planning import plan
from planner.planning.result import Plan

_LENGTH, _AT_ONCE = 8192, 4
_LARGER, _LARGEST = "Qwen/Qwen3-14B", "Qwen/Qwen3-32B"

MADE = {
    "2.4": made_plan(
        of_model(_LARGER),
        on_cards("L4", most=2),
        takes(_LENGTH),
        holds(_AT_ONCE, _LENGTH),
        example=lambda: plan(
            _LARGER, gpu="L4", tensor_parallel_size=2, max_model_len=_LENGTH
        ),
    ),
}


def figures() -> dict[str, Any]:
    """Return the figures of the lesson's words by name."""
    desk = checkpoint(2)
    return {**_of_formats(desk), **_of_cards(desk), **_of_a_pair(desk)}


def _weights(planned: Plan) -> int:
    """Return the line of the account, which the allocator has rounded."""
    return line_of(planned, "weights").size_bytes


def _of_formats(desk: Plan) -> dict[str, Any]:
    fp8 = desk.changed(quantization="fp8")
    return {
        "weights": _weights(desk),
        "half": _weights(desk) // 2,
        "quarter": _weights(desk) // 4,
        "fp8": _weights(fp8),
        "kept": part_bytes(desk, "embeddings") + part_bytes(desk, "lm_head"),
        "why": why(desk, "weights"),
        "fp8_why": why(fp8, "weights"),
    }


def _of_cards(desk: Plan) -> dict[str, Any]:
    largest = _weights(desk.changed(model=_LARGEST))
    requested = rank_of(desk).requested_memory_bytes
    cards = ceil(largest / requested)
    return {
        "largest": largest,
        "largest_in_bits": largest * 8,
        "largest_in_float32": largest * 2,
        "largest_in_fp8": largest // 2,
        "parameters": largest // 2,
        "requested": requested,
        "budgets": largest / requested,
        "parts_of_cards": round(largest / requested, 2),
        "cards": cards,
        "too_few_cards": cards - 1,
        "one_card": 1,
    }


def _of_a_pair(desk: Plan) -> dict[str, Any]:
    alone = desk.changed(model=_LARGER)
    pair = alone.changed(tensor_parallel_size=2)
    answer = MADE["2.4"].example()
    return {
        "alone": _weights(alone),
        "alone_in_fp8": _weights(alone) / 2,
        "alone_in_float32": _weights(alone) * 2,
        "alone_in_bits": _weights(alone) * 8,
        "alone_quarter": _weights(alone) // 4,
        "alone_why": why(alone, "weights"),
        "alone_norms": part_bytes(alone, "norms"),
        "pair": _weights(pair),
        "pair_why": why(pair, "weights"),
        "pair_norms": part_bytes(pair, "norms"),
        "answer_cache": line_of(answer, "KV cache").size_bytes,
        "answer_tokens": answer.kv_cache_size_tokens,
        "command": answer.command(),
    }
