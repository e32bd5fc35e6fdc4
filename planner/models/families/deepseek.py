"""DeepSeek-V2, V3, V3.2 and what is built on them: latent attention and experts.

LongCat-Flash has two of these attentions and two MLPs a layer, and experts beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import CacheLayer
from planner.models.experts import FusedMoE
from planner.models.families.assembly import Body, Label, Skeleton, assemble
from planner.models.families.decoder import (
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.mla import (
    IndexerShape,
    LatentShape,
    indexer,
    indexer_shape,
    latent_attention,
    latent_rope_cache,
    latent_shape,
    mla_layer,
)
from planner.models.families.rope import rope_cache
from planner.models.layers import Module, Part, Replicated, TokenBuffer

Attention = tuple[tuple[CacheLayer, ...], tuple[Module, ...]]
"""What a layer's attention keeps, and what it is made of."""


def read_deepseek_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Read DeepSeek-V2, V3, R1, V3.2 and Kimi-K2, also as part of a larger model.

    Layers for multi-token prediction are not loaded without speculative decoding.

    Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekV2Model and
    `models/deepseek_v32/nvidia/model.py` DeepseekV32Model.
    """
    return read_latent(facts, label, _experts_shape)


def read_glm4_moe_lite(facts: Facts, label: Label) -> ModelArchitecture:
    """Read GLM-4.7-Flash: GLM-4.5's experts with a float32 router.

    Source: vLLM 0.33.0 `models/glm4_moe_lite.py`, `models/glm4_moe.py` Glm4MoE.
    """
    return read_latent(
        facts,
        label,
        lambda inner: replace(
            _experts_shape(inner), router_dtype="float32", has_correction_bias=True
        ),
    )


def read_latent(
    facts: Facts, label: Label, experts_of: Callable[[Facts], ExpertsShape]
) -> ModelArchitecture:
    """Return a model of latent attention whose experts are read by `experts_of`."""
    shape = latent_shape(facts)
    index = None if facts.value("index_topk") is None else indexer_shape(facts)
    has_indexer = _indexing_layers(facts)
    layers = range(facts.integer("num_hidden_layers"))
    body = Body.of(
        _layer(
            facts,
            latent(shape, index, has_indexer=has_indexer(layer)),
            experts_of(facts) if is_sparse(facts, layer) else None,
        )
        for layer in layers
    )
    return assemble(
        facts,
        label,
        _skeleton(facts, (*_rope(facts, shape, index), *_choices(index))),
        body,
        num_experts=facts.optional_integer("n_routed_experts") or 0,
        num_attention_heads=shape.num_heads,
        num_kv_heads=facts.integer("num_key_value_heads", default=shape.num_heads),
        head_size=shape.kept_size,
    )


def read_deepseek(facts: Facts, label: Label) -> ModelArchitecture:
    """Read the first DeepSeek-MoE, whose attention is the usual one.

    Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekAttention.
    """
    if facts.value("rswa_window") is not None:
        raise facts.unsupported("rswa_window", "retrieval windows are not.")
    shape = attention_shape(facts)
    kept: Attention = ((kv_of(shape),), attention(shape))
    layers = range(facts.integer("num_hidden_layers"))
    rope = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings", default=8192),
    )
    return assemble(
        facts,
        label,
        _skeleton(facts, rope),
        Body.of(
            _layer(
                facts,
                kept,
                _experts_shape(facts) if is_sparse(facts, layer) else None,
            )
            for layer in layers
        ),
        num_experts=facts.optional_integer("n_routed_experts") or 0,
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
    return (
        TokenBuffer(
            name="model.topk_indices_buffer", columns=index.topk, dtype="int32"
        ),
    )


def _skeleton(facts: Facts, every_stage: tuple[Module, ...]) -> Skeleton:
    """Return what surrounds the layers; the head is never tied."""
    hidden_size = facts.integer("hidden_size")
    return Skeleton(
        hidden_size=hidden_size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(hidden_size, count=1),),
        every_stage=every_stage,
    )


def _layer(
    facts: Facts, attention: Attention, sparse: ExpertsShape | None
) -> LayerKind:
    caches, modules = attention
    size = facts.integer("hidden_size")
    mlp = (
        gated_mlp(size, facts.integer("intermediate_size"))
        if sparse is None
        else experts(sparse)
    )
    return LayerKind(caches=caches, modules=(*modules, norms(size), *mlp))


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


def _experts_shape(facts: Facts) -> ExpertsShape:
    """Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekV2MoE."""
    size = facts.integer("moe_intermediate_size")
    return ExpertsShape(
        hidden_size=facts.integer("hidden_size"),
        num_experts=facts.integer("n_routed_experts"),
        top_k=facts.integer("num_experts_per_tok"),
        intermediate_size=size,
        shared_intermediate_size=size
        * (facts.optional_integer("n_shared_experts") or 0),
        has_correction_bias=facts.value("topk_method") == "noaux_tc",
        is_renormalized=facts.flag("norm_topk_prob"),
    )


def read_longcat_flash(facts: Facts, label: Label) -> ModelArchitecture:
    """Read LongCat-Flash; experts that do nothing count in the router only.

    Source: vLLM 0.33.0 `models/longcat_flash.py` FlashModel.
    """
    if facts.value("disable_quant_module"):
        raise facts.unsupported("disable_quant_module", "it names layers left alone.")
    shape = latent_shape(facts)
    kept = mla_layer(shape)
    kind = LayerKind(
        caches=(kept, kept),
        modules=(
            *latent_attention(shape, name="self_attn.0"),
            *latent_attention(shape, name="self_attn.1"),
            *_longcat_mlps(facts),
            *_longcat_experts(facts),
            norms(shape.hidden_size, count=4),
        ),
    )
    skeleton = Skeleton(
        hidden_size=shape.hidden_size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(shape.hidden_size, count=1),),
        every_stage=latent_rope_cache(
            facts,
            shape.qk_rope_head_dim,
            max_position=facts.integer("max_position_embeddings", default=8192),
        ),
    )
    return assemble(
        facts,
        label,
        skeleton,
        Body.alike(kind, facts.integer("num_layers", "num_hidden_layers")),
        num_experts=facts.integer("n_routed_experts"),
        num_attention_heads=shape.num_heads,
        num_kv_heads=facts.integer("num_key_value_heads", default=shape.num_heads),
        head_size=shape.kept_size,
    )


def _longcat_mlps(facts: Facts) -> tuple[Module, ...]:
    size = facts.integer("hidden_size")
    columns = facts.integer("ffn_hidden_size", "intermediate_size")
    return (
        *gated_mlp(size, columns, name="mlps.0"),
        *gated_mlp(size, columns, name="mlps.1"),
    )


def _longcat_experts(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/longcat_flash.py` LongcatMoe, LongcatRouter."""
    size, experts = facts.integer("hidden_size"), facts.integer("n_routed_experts")
    rows = experts + facts.integer("zero_expert_num")
    return (
        Replicated(
            name="mlp.router.classifier",
            part=Part.ROUTER,
            shapes=((rows, size), (rows,)),
            dtype="float32",
        ),
        FusedMoE(
            name="mlp.experts",
            num_experts=experts,
            top_k=facts.integer("moe_topk"),
            hidden_size=size,
            intermediate_size=facts.integer(
                "expert_ffn_hidden_size", "moe_intermediate_size"
            ),
            is_renormalized=False,
        ),
    )


READERS = {
    "DeepseekForCausalLM": read_deepseek,
    "DeepseekV2ForCausalLM": read_deepseek_text,
    "DeepseekV3ForCausalLM": read_deepseek_text,
    "DeepseekV3BidirectionalModel": read_deepseek_text,
    "DeepseekV32ForCausalLM": read_deepseek_text,
    "GlmMoeDsaForCausalLM": read_deepseek_text,
    "MistralLarge3ForCausalLM": read_deepseek_text,
    "Glm4MoeLiteForCausalLM": read_glm4_moe_lite,
    "LongcatFlashForCausalLM": read_longcat_flash,
}
