"""Lesson 3: the KV cache: bytes of a token, blocks, and models that keep less."""

from __future__ import annotations

from typing import Any

from planner.learn.account import rank_of, token_bytes, why
from planner.learn.catalogue import checkpoint
from planner.learn.parts import holds, made_plan, of_model, on_cards, takes
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.units import format_gib

_QUESTION = 1000
_LONG, _AT_ONCE = 16_384, 6
LENGTH = 32_768
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "google/gemma-3-12b-it",
    "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
)
"""The measure, which stores every token in every layer, and three that store less."""

MADE = {
    "3.4": made_plan(
        of_model("Qwen/Qwen3-8B"),
        on_cards("L4"),
        takes(_LONG),
        holds(_AT_ONCE, _LONG),
        example=lambda: plan(
            "Qwen/Qwen3-8B",
            gpu="L4",
            max_model_len=_LONG,
            quantization="fp8",
            kv_cache_dtype="fp8",
        ),
    ),
}


def figures() -> dict[str, Any]:
    """Return the figures of the lesson's words by name."""
    desk, answer = checkpoint(3), MADE["3.4"].example()
    return {
        **_of_a_token(desk),
        **_of_blocks(desk),
        "max_num_seqs": 0 if desk.resolved is None else desk.resolved.max_num_seqs,
        "kinds": "\n".join(_kinds(desk, name) for name in MODELS),
        "answer_why": why(answer, "KV cache"),
        "answer_cache": rank_of(answer).available_kv_cache_bytes,
        "answer_token": token_bytes(answer),
        "answer_tokens": answer.kv_cache_size_tokens,
        "command": answer.command(),
    }


def _of_a_token(desk: Plan) -> dict[str, Any]:
    model, token = desk.model, token_bytes(desk)
    assert model is not None  # the help desk's starts
    layers = sum(group.num_layers for group in desk.kv_groups)
    ratio = model.num_attention_heads // model.num_kv_heads
    tokens = float(desk.kv_cache_size_tokens)
    return {
        "layers": layers,
        "kv_heads": model.num_kv_heads,
        "head_size": model.head_size,
        "token": token,
        "token_of_all_heads": token * ratio,
        "token_of_a_layer": token // layers,
        "half_a_token": token // 2,
        "token_in_bits": token * 8,
        "block": token * 16,
        "tokens_of_all_heads": tokens / ratio,
        "twice_the_tokens": tokens * 2,
        "tokens_of_a_layer": tokens * layers,
    }


def _of_blocks(desk: Plan) -> dict[str, Any]:
    size = desk.kv_groups[0].block_size
    return {
        "question": _QUESTION,
        "block_size": size,
        "blocks": -(-_QUESTION // size),
        "parts_of_blocks": _QUESTION / size,
        "full_blocks": _QUESTION // size,
        "blocks_per_request": desk.blocks_per_request,
        "longest": desk.blocks_per_request * size,
        "num_gpu_blocks": desk.num_gpu_blocks,
        "blocks_of_all": float(desk.kv_cache_size_tokens) / size,
        "max_model_len": 8192.0,
    }


def _kinds(desk: Plan, name: str) -> str:
    planned = desk.changed(model=name, max_model_len=LENGTH)
    kinds = ", ".join(sorted({group.kind for group in planned.kv_groups}))
    return (
        f"{name}: {kinds}; a request of {LENGTH:,} tokens takes "
        f"{format_gib(planned.needed_kv_cache_bytes)}."
    )
