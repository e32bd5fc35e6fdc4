"""Mixture-of-experts decoders whose layers have a window or full attention.

Arcee's AFM (Trinity) and LG's K-EXAONE: layers with a window have rotary positions,
those with full attention have none.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Body, Label, Skeleton, assemble
from planner.models.families.decoder import (
    AttentionShape,
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache
from planner.models.layers import ColumnParallelLinear, Module, Part

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


READERS = {
    "AfmoeForCausalLM": read_afmoe,
    "ExaoneMoeForCausalLM": read_exaone_moe,
    "ExaoneMoEForCausalLM": read_exaone_moe,
}
