"""Mixture-of-experts decoders whose layers have a window or full attention.

Arcee's AFM (Trinity) and LG's K-EXAONE: layers with a window have rotary positions,
those with full attention have none. OpenAI's gpt-oss: windows on every other layer,
attention sinks, experts with biases.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer, EncoderOnlyAttentionLayer
from planner.models.experts import FusedMoE
from planner.models.families.assembly import (
    Body,
    Label,
    Placement,
    Skeleton,
    assemble,
    num_labels,
)
from planner.models.families.conversion import without_head
from planner.models.families.decoder import (
    AttentionShape,
    ExpertsShape,
    attention,
    attention_scales,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache, rope_rows
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
    Sharded,
)

_FULL, _SLIDING = "full_attention", "sliding_attention"


def read_afmoe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Arcee's AFM: a gate on attention's output, four norms a layer.

    Source: vLLM 0.33.0 `models/afmoe.py`.
    """
    shape = attention_shape(facts, has_qk_norm=True)
    size, width = shape.hidden_size, facts.integer("moe_intermediate_size")
    common = (
        *attention(shape),
        ColumnParallelLinear(
            name="self_attn.gate_proj",
            part=Part.ATTENTION,
            input_size=size,
            output_sizes=(shape.num_heads * shape.head_size,),
        ),
        norms(size, count=4),
    )
    sparse = experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=facts.integer("num_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=width,
            shared_intermediate_size=width * facts.integer("num_shared_experts"),
            router_dtype="float32",
            has_correction_bias=True,
            is_renormalized=facts.flag("route_norm")
            and facts.value("score_func") == "sigmoid",
        )
    )
    first_sparse = facts.integer("num_dense_layers")
    num_layers = facts.integer("num_hidden_layers")
    dense = gated_mlp(size, facts.integer("intermediate_size"))
    body = _body(
        facts,
        shape,
        layers=tuple(
            (*common, *(sparse if layer >= first_sparse else dense))
            for layer in range(num_layers)
        ),
        every="global_attn_every_n_layers",
    )
    # vLLM's class always builds a head of its own.
    return _assemble(facts, label, shape, body, is_tied=False)


def read_exaone_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return K-EXAONE. Source: vLLM 0.33.0 `models/exaone_moe.py`."""
    has_bias = facts.flag("attention_bias") or facts.flag("bias")
    shape = attention_shape(
        facts, qkv_bias=has_bias, output_bias=has_bias, has_qk_norm=True
    )
    size, width = shape.hidden_size, facts.integer("moe_intermediate_size")
    if facts.value("sliding_windows") is not None:
        raise facts.unsupported("sliding_windows", "one window for all layers is.")
    sparse = experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=facts.integer("num_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=width,
            shared_intermediate_size=width * facts.integer("num_shared_experts"),
            has_correction_bias=True,
            is_renormalized=facts.flag("norm_topk_prob"),
        )
    )
    first_sparse = facts.integer("first_k_dense_replace")
    num_layers = facts.integer("num_hidden_layers")
    given = facts.value("mlp_layer_types") or [
        "sparse" if layer >= first_sparse else "dense" for layer in range(num_layers)
    ]
    dense = gated_mlp(
        size, facts.integer("intermediate_size"), bias=facts.flag("mlp_bias")
    )
    common = (*attention(shape), norms(size))
    body = _body(
        facts,
        shape,
        layers=tuple(
            (*common, *(sparse if given[layer] == "sparse" else dense))
            for layer in range(num_layers)
        ),
        every="sliding_window_pattern",
    )
    is_tied = facts.flag("tie_word_embeddings")
    return _assemble(facts, label, shape, body, is_tied=is_tied)


def _body(
    facts: Facts,
    shape: AttentionShape,
    *,
    layers: tuple[tuple[Module, ...], ...],
    every: str,
) -> Body:
    """Return the layers, with windows as layer_types or the field `every` says."""
    window = facts.optional_integer("sliding_window")
    types = facts.value("layer_types") or [
        _SLIDING if layer % facts.integer(every) else _FULL
        for layer in range(1, len(layers) + 1)
    ]
    if not set(types) <= {_FULL, _SLIDING}:
        raise facts.unsupported("layer_types", "full and sliding attention are.")
    plain = kv_of(shape)
    caches: dict[str, AttentionLayer] = {
        _FULL: plain,
        _SLIDING: replace(plain, sliding_window=window),
    }
    return Body.of(
        LayerKind(caches=(caches[kind],), modules=modules)
        for kind, modules in zip(types, layers, strict=True)
    )


def _assemble(
    facts: Facts,
    label: Label,
    shape: AttentionShape,
    body: Body,
    *,
    is_tied: bool,
) -> ModelArchitecture:
    skeleton = Skeleton(
        hidden_size=shape.hidden_size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(shape.hidden_size, count=1),),
        tie_word_embeddings=is_tied,
        every_stage=rope_cache(
            facts,
            head_size=shape.head_size,
            max_position=facts.integer("max_position_embeddings"),
        ),
    )
    return assemble(
        facts, label, skeleton, body, num_experts=facts.integer("num_experts")
    )


def read_gpt_oss(facts: Facts, label: Label) -> ModelArchitecture:
    """Return gpt-oss, as published (MXFP4 experts) or in plain weights.

    The table of cosines is float32 whatever the model's dtype.

    Source: vLLM 0.33.0 `models/gpt_oss.py`.
    """
    hidden_size = facts.integer("hidden_size")
    num_layers = facts.integer("num_hidden_layers")
    modules = (*_gpt_oss_attention(facts), norms(hidden_size), *_gpt_oss_experts(facts))
    kinds = tuple(
        LayerKind(caches=(_gpt_oss_cache(facts, window),), modules=modules)
        for window in (facts.optional_integer("sliding_window"), None)
    )
    skeleton = Skeleton(
        hidden_size=hidden_size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(hidden_size, count=1),),
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        is_head_quantizable=False,
        every_stage=(_gpt_oss_rope_cache(facts),),
    )
    body = Body(kinds=kinds, layers=tuple(layer % 2 for layer in range(num_layers)))
    return assemble(
        facts,
        label,
        skeleton,
        body,
        num_experts=facts.integer("num_local_experts"),
    )


def _gpt_oss_attention(facts: Facts) -> tuple[Module, ...]:
    hidden_size = facts.integer("hidden_size")
    num_heads = facts.integer("num_attention_heads")
    head_size = facts.integer("head_dim")
    return (
        QKVParallelLinear(
            name="attn.qkv_proj",
            input_size=hidden_size,
            num_heads=num_heads,
            num_kv_heads=facts.integer("num_key_value_heads"),
            head_size=head_size,
            bias=True,
        ),
        RowParallelLinear(
            name="attn.o_proj",
            part=Part.ATTENTION,
            input_size=num_heads * head_size,
            output_size=hidden_size,
            bias=True,
        ),
        Sharded(name="attn.sinks", part=Part.ATTENTION, shapes=((num_heads,),)),
        attention_scales(),
    )


def _gpt_oss_experts(facts: Facts) -> tuple[Module, ...]:
    """Return router and experts; vLLM's class does not quantise the router."""
    hidden_size = facts.integer("hidden_size")
    num_experts = facts.integer("num_local_experts")
    return (
        ReplicatedLinear(
            name="mlp.router",
            part=Part.ROUTER,
            input_size=hidden_size,
            output_sizes=(num_experts,),
            bias=True,
            is_quantizable=False,
        ),
        FusedMoE(
            name="mlp.experts",
            num_experts=num_experts,
            top_k=facts.integer("num_experts_per_tok"),
            hidden_size=hidden_size,
            intermediate_size=facts.integer("intermediate_size"),
            bias=True,
            activation="swigluoai",
        ),
    )


def _gpt_oss_cache(facts: Facts, sliding_window: int | None) -> AttentionLayer:
    return AttentionLayer(
        num_heads=facts.integer("num_attention_heads"),
        num_kv_heads=facts.integer("num_key_value_heads"),
        head_size=facts.integer("head_dim"),
        sliding_window=sliding_window,
        has_sinks=True,
    )


def _gpt_oss_rope_cache(facts: Facts) -> Replicated:
    rows = rope_rows(facts, facts.integer("max_position_embeddings"))
    return Replicated(
        name="rotary_emb.cos_sin_cache",
        part=Part.BUFFERS,
        shapes=((rows, facts.integer("head_dim")),),
        dtype="float32",
    )


def read_privacy_filter(facts: Facts, label: Label) -> ModelArchitecture:
    """Return gpt-oss that sees both directions and labels tokens.

    Source: vLLM 0.33.0 `models/openai_privacy_filter.py`.
    """
    model = read_gpt_oss(facts, label)
    heads = EncoderOnlyAttentionLayer(
        num_heads=model.num_attention_heads,
        num_kv_heads=model.num_kv_heads,
        head_size=model.head_size,
    )
    labels = num_labels(facts)
    score = Replicated(
        name="score",
        part=Part.CLASSIFIER,
        shapes=((labels, model.hidden_size), (labels,)),
        dtype="float32",
    )
    return replace(
        model,
        layer_kinds=tuple(replace(kind, caches=(heads,)) for kind in model.layer_kinds),
        every_stage=(*without_head(model.every_stage), score),
        is_pooling=True,
        is_encoder_only=True,
        supports_pp=False,
    )


READERS = {
    "OpenAIPrivacyFilterForTokenClassification": read_privacy_filter,
    "AfmoeForCausalLM": read_afmoe,
    "ExaoneMoeForCausalLM": read_exaone_moe,
    "ExaoneMoEForCausalLM": read_exaone_moe,
    "GptOssForCausalLM": read_gpt_oss,
}
