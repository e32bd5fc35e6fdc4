"""DeepSeek-V2, V3, V3.2 and what is built on them: latent attention and experts.

Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekAttention; `models/AXK1.py`,
`glm4_moe_lite.py`, `glm4_moe.py` Glm4MoE, `sarvam.py` SarvamMLAForCausalLM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import CacheLayer
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.decoder import AttentionShape, experts, gated_mlp, norms
from planner.models.families.facts import Facts
from planner.models.families.mla import (
    IndexerShape,
    LatentShape,
    declared_heads,
    indexer,
    indexer_shape,
    latent_attention,
    latent_rope_cache,
    latent_shape,
    mla_layer,
)
from planner.models.families.styles import Experts, Style, experts_shape, unless_off
from planner.models.families.windows import no_windows
from planner.models.layers import Module, TokenBuffer

Attention = tuple[tuple[CacheLayer, ...], tuple[Module, ...]]
"""What a layer's attention keeps, and what it is made of."""


def read_latent(facts: Facts, label: Label, *, style: Style) -> ModelArchitecture:
    """Return a model of latent attention, with experts or without.

    Layers for multi-token prediction are not loaded without speculative decoding.

    Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekV2Model and
    `models/deepseek_v32/nvidia/model.py` DeepseekV32Model.
    """
    facts = style.as_usual(facts)
    shape = latent_shape(facts)
    index = None if facts.value("index_topk") is None else indexer_shape(facts)
    has_indexer = _indexing_layers(facts)
    layers = (
        _layer(
            facts,
            latent(shape, index, has_indexer=has_indexer(layer)),
            style,
            is_sparse=is_sparse(facts, layer),
        )
        for layer in range(facts.integer("num_hidden_layers"))
    )
    every = (*_rope(facts, shape, index), *_choices(index))
    return assemble(
        facts,
        label,
        Frame(shape.hidden_size, every, is_tied=False),
        layers,
        **declared_heads(facts, shape),
    )


def latent(
    shape: LatentShape, index: IndexerShape | None, *, has_indexer: bool = True
) -> Attention:
    """Return the attention of a layer, with its indexer where it has one."""
    if index is None:
        return (mla_layer(shape),), latent_attention(shape)
    kept = mla_layer(shape, index_topk=index.topk, has_indexer=has_indexer)
    if not has_indexer:
        return (kept,), latent_attention(shape)
    modules = (*latent_attention(shape), *indexer(shape, index))
    return (index.cache, kept), modules


def _indexing_layers(facts: Facts) -> Callable[[int], bool]:
    """Return which layers choose tokens themselves.

    Source: vLLM 0.33.0 `models/deepseek_v32/attention.py` DeepseekV32Attention.
    """
    pattern = facts.value("index_topk_pattern")
    every = facts.integer("index_topk_freq", default=1)
    offset = facts.integer("index_skip_topk_offset", default=2)
    if pattern is not None:
        return lambda layer: layer >= len(pattern) or pattern[layer] != "S"
    return lambda layer: max(layer - offset + 1, 0) % every == 0


def _rope(
    facts: Facts, shape: LatentShape, index: IndexerShape | None
) -> tuple[Module, ...]:
    """Return the rotary table, and the indexer's where it pairs dimensions otherwise.

    Source: vLLM 0.33.0 `layers/rotary_embedding/__init__.py` get_rope, which shares
    tables that are alike.
    """
    has_own = index is not None and not facts.flag("indexer_rope_interleave")
    return latent_rope_cache(
        facts,
        shape.qk_rope_head_dim,
        max_position=facts.integer("max_position_embeddings", default=8192),
        count=2 if has_own else 1,
    )


def _choices(index: IndexerShape | None) -> tuple[Module, ...]:
    """Return the buffer of the tokens chosen, which all layers share."""
    if index is None:
        return ()
    return (TokenBuffer("model.topk_indices_buffer", index.topk, dtype="int32"),)


def _layer(
    facts: Facts, attention: Attention, style: Style, *, is_sparse: bool
) -> LayerKind:
    caches, modules = attention
    size, count = facts.integer("hidden_size"), style.norm_count
    mlp = (
        experts(experts_shape(facts, style.experts))
        if is_sparse and style.experts
        else gated_mlp(size, facts.integer("intermediate_size"))
    )
    around = norms(size, count=count(facts) if callable(count) else count)
    return LayerKind(caches, (*modules, *mlp, around))


def is_sparse(facts: Facts, layer: int) -> bool:
    """Whether a layer holds experts.

    Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekV2DecoderLayer; `models/AXK1.py`
    _get_mlp_layer_types.
    """
    if facts.optional_integer("n_routed_experts") is None:
        return False
    types = facts.value("mlp_layer_types") if facts.model_type == "axk1" else None
    if types is not None:
        return bool(types[layer] == "sparse")
    frequency = facts.integer("moe_layer_freq", default=1)
    first = facts.integer("first_k_dense_replace")
    return layer >= first and layer % frequency == 0


def _has_noaux_bias(facts: Facts) -> bool:
    return bool(facts.value("topk_method") == "noaux_tc")


def _sarvam_shared(facts: Facts) -> int:
    own = facts.optional_integer("moe_shared_expert_intermediate_size")
    width = own or facts.integer("moe_intermediate_size")
    return width * facts.integer("num_shared_experts", default=1)


def _without_rswa(facts: Facts, shape: AttentionShape) -> AttentionShape:
    if facts.value("rswa_window") is not None:
        raise facts.unsupported("rswa_window", "retrieval windows are not.")
    return shape


EXPERTS = Experts(
    shared="n_shared_experts",
    has_correction_bias=_has_noaux_bias,
    is_renormalized="norm_topk_prob",
)
LATENT = Style(fields={"num_experts": "n_routed_experts"}, experts=EXPERTS)
read_deepseek_text = partial(read_latent, style=LATENT)
"""Reads DeepSeek-V2, V3, R1, V3.2 and Kimi-K2, also as part of a larger model."""

_LATENT = {
    **dict.fromkeys(
        (
            "DeepseekV2ForCausalLM",
            "DeepseekV3ForCausalLM",
            "DeepseekV3BidirectionalModel",
            "DeepseekV32ForCausalLM",
            "GlmMoeDsaForCausalLM",
            "MistralLarge3ForCausalLM",
        ),
        LATENT,
    ),
    # GLM-4.7-Flash: GLM-4.5's experts with a float32 router.
    "Glm4MoeLiteForCausalLM": replace(
        LATENT,
        experts=replace(EXPERTS, router_dtype="float32", has_correction_bias=True),
    ),
    # DeepSeek-V3's layers with one more norm.
    "AXK1ForCausalLM": replace(
        LATENT,
        norm_count=3,
        experts=replace(
            EXPERTS,
            has_correction_bias=lambda facts: (
                facts.value("topk_method") in (None, "noaux_tc")
            ),
        ),
    ),
    "SarvamMLAForCausalLM": Style(
        fields={
            "n_routed_experts": lambda facts: facts.value("num_experts"),
            "first_k_dense_replace": lambda facts: facts.integer(
                "first_k_dense_replace", default=1
            ),
            "intermediate_size": lambda facts: facts.integer(
                "intermediate_size", default=16384
            ),
        },
        experts=Experts(
            shared=_sarvam_shared,
            has_correction_bias=unless_off("moe_router_enable_expert_bias"),
            is_renormalized=unless_off("norm_topk_prob"),
        ),
    ),
}
ROWS = {
    # The first DeepSeek-MoE, whose attention is the usual one.
    "DeepseekForCausalLM": replace(
        LATENT,
        fields={**LATENT.fields, "tie_word_embeddings": False},
        heads=_without_rswa,
        windows=no_windows,
        is_sparse=is_sparse,
    )
}
READERS = {name: partial(read_latent, style=style) for name, style in _LATENT.items()}
