"""Ling and Ring, and what is built like them: Sarvam's experts, Param-2.

Source: vLLM 0.33.0 `models/bailing_moe.py`, `sarvam.py` SarvamMoEForCausalLM,
`param2moe.py`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.families.decoder import (
    AttentionShape,
)
from planner.models.families.facts import Facts
from planner.models.families.mixtures import after_first
from planner.models.families.styles import Experts, Style, unless_off
from planner.models.families.windows import no_windows


def _bailing_heads(facts: Facts, shape: AttentionShape) -> AttentionShape:
    """Return attention whose norms have a bias each, unless they are RMS norms."""
    if shape.qk_norm_sizes and not facts.flag("use_rmsnorm"):
        return replace(shape, qk_norm_sizes=(shape.head_size,) * 4)
    return shape


def _bailing_shared(facts: Facts) -> int:
    width = facts.integer("moe_intermediate_size")
    own = facts.optional_integer("moe_shared_expert_intermediate_size") or width
    return own * facts.integer("num_shared_experts")


def _bailing_router(facts: Facts) -> str | None:
    names = {None: None, "fp32": "float32"}
    return names.get(facts.value("router_dtype"), "bfloat16")


def _partial_rotary(facts: Facts, head_size: int) -> int:
    return int(head_size * facts.number("partial_rotary_factor", default=1.0))


def _param2_shared(facts: Facts) -> int:
    count = facts.integer("num_shared_experts", default=1)
    own = facts.optional_integer("moe_shared_expert_intermediate_size")
    width = facts.integer("moe_intermediate_size") * count if own is None else own
    return width if count else 0


BAILING_EXPERTS = Experts(
    shared=_bailing_shared,
    shared_bias="use_bias",
    router_dtype=_bailing_router,
    has_correction_bias="moe_router_enable_expert_bias",
    is_renormalized="norm_topk_prob",
)
_BAILING = Style(
    qkv_bias=("use_bias", "use_qkv_bias"),
    output_bias="use_bias",
    mlp_bias="use_bias",
    qk_norm="use_qk_norm",
    heads=_bailing_heads,
    windows=no_windows,
    rotary_dim=lambda facts, size: (
        facts.optional_integer("rotary_dim") or _partial_rotary(facts, size)
    ),
    is_sparse=after_first,
    experts=BAILING_EXPERTS,
)
ROWS = {
    **dict.fromkeys(
        (
            "BailingMoeForCausalLM",
            "BailingMoeV2ForCausalLM",
            "SarvamMoEForCausalLM",
        ),
        _BAILING,
    ),
    "Param2MoEForCausalLM": Style(
        fields={
            "first_k_dense_replace": lambda facts: facts.integer(
                "first_k_dense_replace", default=1
            )
        },
        qkv_bias="use_qkv_bias",
        output_bias="use_bias",
        qk_norm="use_qk_norm",
        windows=no_windows,
        rotary_dim=_partial_rotary,
        is_sparse=after_first,
        experts=Experts(
            shared=_param2_shared,
            router_dtype="float32",
            has_correction_bias=unless_off("moe_router_enable_expert_bias"),
            is_renormalized=unless_off("norm_topk_prob"),
        ),
    ),
}
"""By architecture."""
