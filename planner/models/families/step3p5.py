"""Step 3.5: windows, and heads whose number differs with them."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.decoder import (
    ExpertsShape,
    attention,
    attention_gate,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import FULL, SLIDING, Frame, decoder, typed_ropes
from planner.models.families.rope import rope_cache, with_rope
from planner.models.families.step3_text import listed_layers
from planner.models.layers import Module, Part


def read_step3p5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step 3.5: windows, and heads whose number differs with them.

    Source: vLLM 0.33.0 `models/step3p5.py`.
    """
    num_layers = facts.integer("num_hidden_layers")
    types = (facts.value("layer_types") or [FULL] * num_layers)[:num_layers]
    sparse = _experts(facts)
    dense = gated_mlp(facts.integer("hidden_size"), facts.integer("intermediate_size"))
    mlps = facts.value("mlp_layer_types")
    listed = listed_layers(facts.value("moe_layers_enum"), range(1, num_layers))
    if mlps is not None:
        listed = {i for i, kind in enumerate(mlps) if kind == "sparse"}
    layers = [
        _layer(facts, kind, sparse if i in listed else dense)
        for i, kind in enumerate(types)
    ]
    head_size = facts.optional_integer("head_dim") or facts.integer(
        "hidden_size"
    ) // facts.integer("num_attention_heads")
    frame = Frame(
        facts.integer("hidden_size"), _ropes(facts, types, head_size), is_tied=False
    )
    return decoder(facts, label, frame, layers)


def _layer(facts: Facts, kind: str, mlp: tuple[Module, ...]) -> LayerKind:
    plain = attention_shape(facts, qkv_bias=facts.flag("attention_bias"))
    other = facts.mapping("attention_other_setting")
    heads = plain.num_heads
    if kind == SLIDING:
        heads = facts.optional_integer("num_sliding_attention_heads") or heads
        if other.get("attention_type") == kind:
            heads = other["num_attention_heads"]
    if facts.value("per_layer_config"):
        raise facts.unsupported("per_layer_config", "heads by layer are not.")
    shape = replace(
        plain,
        num_heads=heads,
        num_kv_heads=facts.integer("num_attention_groups", "num_key_value_heads"),
        qk_norm_sizes=(plain.head_size, plain.head_size),
    )
    modules = (*attention(shape), norms(shape.hidden_size))
    if facts.flag("use_head_wise_attn_gate"):
        modules = (*modules, attention_gate(shape, heads))
    window = facts.optional_integer("sliding_window") if kind == SLIDING else None
    return LayerKind((replace(kv_of(shape), sliding_window=window),), (*modules, *mlp))


def _experts(facts: Facts) -> tuple[Module, ...]:
    size = facts.integer("hidden_size")
    return (
        *experts(
            ExpertsShape(
                hidden_size=size,
                num_experts=facts.integer("moe_num_experts", "n_routed_experts"),
                top_k=facts.integer("moe_top_k", "num_experts_per_tok"),
                intermediate_size=facts.integer("moe_intermediate_size"),
                is_renormalized=facts.flag("norm_expert_weight"),
                router_dtype="float32",
                has_correction_bias=True,
                name="moe",
            )
        ),
        *gated_mlp(
            size,
            facts.integer("share_expert_dim", "shared_expert_intermediate_size"),
            part=Part.SHARED_EXPERTS,
            name="share_expert",
        ),
    )


def _ropes(facts: Facts, types: list[str], head_size: int) -> tuple[Module, ...]:
    """Return the tables, whose parameters old configs keep by layer."""
    max_position = facts.integer("max_position_embeddings")
    by_type = facts.mapping("rope_parameters")
    if any(isinstance(value, dict) for value in by_type.values()):
        return typed_ropes(facts, types, head_size=head_size, max_position=max_position)
    scaled_only = facts.value("yarn_only_types")
    thetas, factors = facts.value("rope_theta"), facts.value("partial_rotary_factors")
    tables: dict[str, Module] = {}
    for index, kind in enumerate(types):
        scaling = dict(facts.mapping("rope_scaling"))
        if scaled_only and kind not in scaled_only:
            scaling = {}
        theta = thetas[index] if isinstance(thetas, list) else thetas
        factor = factors[index] if factors else 1.0
        rope = {**scaling, "rope_theta": theta, "partial_rotary_factor": factor}
        own = with_rope(facts, rope)
        key = str(sorted(rope.items(), key=str))
        if key not in tables:
            (tables[key],) = rope_cache(own, head_size, max_position=max_position)
    return tuple(tables.values())


READERS = {
    "Step3p5ForCausalLM": read_step3p5,
}
