"""Fewer bytes for each token in the KV cache."""

from __future__ import annotations

from collections.abc import Iterator

from planner.solve.advice.situation import Burden, Candidate, Situation

_EIGHT_BITS = ("fp8", "int8_per_token_head")
_FOUR_BITS = ("nvfp4", "int4_per_token_head", "turboquant_3bit_nc")
_WIDE = ("auto", "float16", "bfloat16", "float32")
_BLOCK_SIZES = (16, 32, 64, 128)


def eight_bits(situation: Situation) -> Iterator[Candidate]:
    """Store keys and values in 8 bits."""
    if not _is_wide(situation):
        return
    for dtype in _EIGHT_BITS:
        yield Candidate(
            title=f"Keep the KV cache in 8 bits ({dtype})",
            changes={"kv_cache_dtype": dtype},
            cost="Answers to long prompts may change slightly; without scales in the "
            "checkpoint, vLLM takes 1."
            if dtype == "fp8"
            else "Answers to long prompts may change slightly, and attention is "
            "served by fewer kernels.",
            burden=Burden.ACCURACY,
        )


def four_bits(situation: Situation) -> Iterator[Candidate]:
    """Store keys and values in about 4 bits."""
    resolved = situation.plan.resolved
    if resolved is None or resolved.kv_cache_dtype in _FOUR_BITS:
        return
    for dtype in _FOUR_BITS:
        yield Candidate(
            title=f"Keep the KV cache in {'3' if '3bit' in dtype else '4'} bits "
            f"({dtype})",
            changes={"kv_cache_dtype": dtype},
            cost="Answers to long prompts may change noticeably: try it on your own "
            "prompts first.",
            burden=Burden.ABILITY,
        )


def _is_wide(situation: Situation) -> bool:
    resolved = situation.plan.resolved
    return resolved is not None and resolved.kv_cache_dtype in _WIDE


def no_prefix_caching(situation: Situation) -> Iterator[Candidate]:
    """Keep one state per request, where prefix caching keeps several."""
    plan = situation.plan
    if plan.model is None or plan.resolved is None or not plan.model.state_layers:
        return
    if not plan.resolved.enable_prefix_caching:
        return
    yield Candidate(
        title="Switch prefix caching off, so that states are kept once a request",
        changes={"enable_prefix_caching": False},
        cost="Prompts with the same beginning are computed in full each time.",
    )


def hybrid_manager(situation: Situation) -> Iterator[Candidate]:
    """Let each kind of layer keep only the tokens that it needs."""
    if not situation.plan.settings.disable_hybrid_kv_cache_manager:
        return
    yield Candidate(
        title="Leave the hybrid KV cache manager on: sliding windows then keep their "
        "window only",
        changes={"disable_hybrid_kv_cache_manager": None},
        cost="Some KV connectors cannot work with it.",
        burden=Burden.NOTHING,
    )


def block_size(situation: Situation) -> Iterator[Candidate]:
    """Use another block size, where several kinds of layers share blocks."""
    plan = situation.plan
    if len(plan.kv_groups) <= 1 and plan.settings.block_size is None:
        return
    for size in _BLOCK_SIZES:
        if plan.resolved is None or size != plan.resolved.block_size:
            yield Candidate(
                title=f"Use blocks of {size} tokens",
                changes={"block_size": size},
                cost="Fewer attention kernels may take blocks of that size.",
            )


def state_dtype(situation: Situation) -> Iterator[Candidate]:
    """Store the states of recurrent layers in 16 bits."""
    model = situation.model
    if model is None or not model.state_layers:
        return
    for name in ("mamba_ssm_cache_dtype", "mamba_cache_dtype"):
        if getattr(situation.plan.settings, name) not in ("float16", "bfloat16"):
            yield Candidate(
                title="Keep the states of recurrent layers in 16 bits",
                changes={name: "bfloat16"},
                cost="Errors add up in these states, so long answers may change "
                "noticeably.",
                burden=Burden.ABILITY,
            )
