"""Llama 4: chunked attention, layers without positions, experts, and a vision tower."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
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
from planner.models.families.multimodal import (
    known_as,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.rope import rope_cache
from planner.models.families.towers.llama4 import llama4_towers
from planner.models.layers import Module, Part, Replicated


def read_llama4_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the language model of Llama 4 from its text config.

    Source: vLLM 0.33.0 `models/llama4.py`.
    """
    shape = attention_shape(facts)
    num_layers = facts.integer("num_hidden_layers")
    rope = _has_rope(facts, num_layers)
    step = facts.integer("interleave_moe_layer_step", default=1)
    kinds = [
        (rope[layer], step > 0 and (layer + 1) % step == 0)
        for layer in range(num_layers)
    ]
    distinct = tuple(dict.fromkeys(kinds))
    body = Body(
        kinds=tuple(
            _layer(facts, shape, has_rope=has_rope, is_sparse=is_sparse)
            for has_rope, is_sparse in distinct
        ),
        layers=tuple(map(distinct.index, kinds)),
    )
    skeleton = Skeleton(
        hidden_size=shape.hidden_size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(shape.hidden_size, count=1),),
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        every_stage=rope_cache(
            facts,
            head_size=shape.head_size,
            max_position=facts.integer("max_position_embeddings", default=8192),
        ),
    )
    num_experts = facts.integer("num_local_experts")
    return assemble(facts, label, skeleton, body, num_experts=num_experts)


def _has_rope(facts: Facts, num_layers: int) -> tuple[bool, ...]:
    """Return which layers rotate queries and keys; every fourth does not.

    Source: Transformers' Llama4TextConfig.
    """
    given = facts.value("no_rope_layers")  # 1 means that the layer has RoPE
    if given:
        return tuple(map(bool, given[:num_layers]))
    every = facts.integer("no_rope_layer_interval", default=4)
    return tuple((layer + 1) % every != 0 for layer in range(num_layers))


def _layer(
    facts: Facts, shape: AttentionShape, *, has_rope: bool, is_sparse: bool
) -> LayerKind:
    chunk = facts.optional_integer("attention_chunk_size") if has_rope else None
    cache = replace(kv_of(shape), attention_chunk_size=chunk or None)
    feed_forward = (
        _experts(facts, shape.hidden_size)
        if is_sparse
        else gated_mlp(
            shape.hidden_size,
            facts.integer("intermediate_size_mlp"),
            name="feed_forward",
        )
    )
    modules = (*attention(shape), *feed_forward, norms(shape.hidden_size))
    if has_rope and facts.flag("use_qk_norm", default=True):
        modules = (*modules, _unit_norm(shape.head_size))
    return LayerKind(caches=(cache,), modules=modules)


def _unit_norm(head_size: int) -> Replicated:
    """Return what the norm of queries and keys holds without a weight to learn."""
    return Replicated(
        name="self_attn.qk_norm",
        part=Part.BUFFERS,
        shapes=((head_size,),),
        dtype="float32",
    )


def _experts(facts: Facts, hidden_size: int) -> tuple[Module, ...]:
    """Return router, experts and the one shared expert of a layer.

    Source: vLLM 0.33.0 `models/llama4.py` Llama4MoE.
    """
    intermediate_size = facts.integer("intermediate_size")
    shape = ExpertsShape(
        hidden_size=hidden_size,
        num_experts=facts.integer("num_local_experts"),
        top_k=facts.integer("num_experts_per_tok"),
        intermediate_size=intermediate_size,
        shared_intermediate_size=intermediate_size,
        is_renormalized=False,
        name="feed_forward",
        router_name="router",
        shared_name="shared_expert",
    )
    return experts(shape)


def read_llama4(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Llama 4 with its tower.

    Source: vLLM 0.33.0 `models/mllama4.py` Llama4ForConditionalGeneration.
    """
    model = read_llama4_text(text_facts(facts, "llama4_text"), label)
    vision = sub_config(facts, "vision_config", "llama4_vision_model")
    whole = with_towers(
        model,
        llama4_towers(vision, model.hidden_size),
        layer_prefix="language_model.model.layers",
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


READERS = {
    "Llama4ForCausalLM": read_llama4_text,
    "Llama4ForConditionalGeneration": read_llama4,
}
