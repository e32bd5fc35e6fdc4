"""Laguna: windows, a gate on the attention, heads that differ by layer."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.decoder import (
    attention,
    attention_gate,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
    sinks,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import typed_ropes, with_rope
from planner.models.families.styles import Experts, experts_shape
from planner.models.families.windows import FULL, SLIDING, is_sliding
from planner.models.layers import ColumnParallelLinear, Module, Part

_EXPERTS = Experts(
    shared=lambda facts: facts.optional_integer("shared_expert_intermediate_size") or 0,
    shared_name="shared_expert",
    has_correction_bias=True,
)


def read_laguna(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Laguna: windows, a gate on the attention, heads that differ by layer.

    Source: vLLM 0.33.0 `models/laguna.py`.
    """
    has_bias = facts.flag("attention_bias")
    plain = attention_shape(
        facts, qkv_bias=has_bias, output_bias=has_bias, has_qk_norm=True
    )
    size, gating = plain.hidden_size, facts.value("gating")
    sliding, heads = is_sliding(facts), facts.value("num_attention_heads_per_layer")
    has_sinks = facts.flag("swa_attention_sink_enabled")
    window = facts.optional_integer("sliding_window")
    sparse, dense = experts(experts_shape(facts, _EXPERTS)), _mlp(facts)
    layers = []
    for index, mlp in enumerate(facts.value("mlp_layer_types")):
        shape = replace(plain, num_heads=heads[index]) if heads else plain
        modules: tuple[Module, ...] = (*attention(shape), norms(size))
        if gating:
            is_by_head = gating is True or gating == "per-head"
            columns = shape.num_heads * (1 if is_by_head else shape.head_size)
            modules = (*modules, attention_gate(shape, columns))
        kept = replace(kv_of(shape), sliding_window=window if sliding[index] else None)
        if sliding[index] and has_sinks:
            modules = (*modules, sinks(shape.num_heads))
            kept = replace(kept, has_sinks=True)
        modules = (*modules, *(sparse if mlp == "sparse" else dense))
        layers.append(LayerKind((kept,), modules))
    own = facts.value("swa_rope_parameters")
    rope = typed_ropes(
        facts,
        (SLIDING if each else FULL for each in sliding),
        plain.head_size,
        local=with_rope(facts, own) if own else None,
    )
    return assemble(facts, label, Frame(size, rope), layers)


def _mlp(facts: Facts) -> tuple[Module, ...]:
    size, width = facts.integer("hidden_size"), facts.integer("intermediate_size")
    gate, up = (
        ColumnParallelLinear(f"mlp.{name}", Part.MLP, size, (width,))
        for name in ("gate_proj", "up_proj")
    )
    return (gate, up, gated_mlp(size, width)[1])


READERS = {
    "LagunaForCausalLM": read_laguna,
}
