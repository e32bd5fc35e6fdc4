"""Alice AI: delta nets, and attention over the outputs of earlier layers."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, Placement, assemble
from planner.models.families.decoder import attention, correction_bias, kv_of, norms
from planner.models.families.facts import Facts
from planner.models.families.kimi_k3 import delta_attention, delta_state
from planner.models.families.qwen3_next import (
    gated_shape,
    sparse_block,
)
from planner.models.families.rope import rope_cache
from planner.models.layers import Part, Replicated

_LINEAR = "linear_attention"


def read_alice_ai(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Alice AI: Kimi's delta nets, Qwen3-Next's attention and experts.

    Source: vLLM 0.33.0 `models/alice_ai.py`.
    """
    size, num_layers = facts.integer("hidden_size"), facts.integer("num_hidden_layers")
    linear = {
        "num_heads": facts.integer("linear_num_key_heads"),
        "head_dim": facts.integer("linear_key_head_dim"),
        "short_conv_kernel_size": facts.integer("linear_conv_kernel_dim"),
    }
    mixer = delta_attention(linear, size, name="linear_attn")
    shape = replace(gated_shape(facts), has_gate=True, qkv_bias=False)
    bias = correction_bias(facts.integer("num_experts"))
    rest = (*sparse_block(facts), bias, norms(size))
    layers = [
        LayerKind(
            (delta_state(linear) if kind == _LINEAR else kv_of(shape),),
            (
                *(mixer if kind == _LINEAR else attention(shape)),
                *rest,
                _over_layers(size, count=4 if index else 2),
            ),
        )
        for index, kind in enumerate(facts.value("layer_types")[:num_layers])
    ]
    rope = rope_cache(facts, shape.head_size)
    frame = Frame(
        size,
        rope,
        placement=Placement.EVERYWHERE,
        is_tied=False,
        is_head_quantizable=False,
        final_norm=(norms(size, count=1), _over_layers(size, count=2)),
    )
    return assemble(facts, label, frame, layers, supports_pp=False)


def _over_layers(size: int, *, count: int) -> Replicated:
    """Return the vectors by which a layer chooses among earlier layers' outputs."""
    return Replicated("attn_res", Part.NORMS, ((size,),) * count)


READERS = {
    "AliceAIForCausalLM": read_alice_ai,
}
