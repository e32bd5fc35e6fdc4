"""Alice AI: delta nets, and attention over the outputs of earlier layers."""

from __future__ import annotations

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label, Placement
from planner.models.families.decoder import norms
from planner.models.families.facts import Facts
from planner.models.families.kimi_k3 import delta_attention, delta_state
from planner.models.families.layered import Frame, decoder
from planner.models.families.qwen3_next import (
    gated_attention,
    gated_attention_layer,
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
    gated = Facts(
        {**facts.config, "attn_output_gate": True, "qkv_bias": False}, facts.model_type
    )
    kept = gated_attention_layer(facts)
    bias = Replicated(
        "mlp.gate.e_score_correction_bias",
        Part.ROUTER,
        ((facts.integer("num_experts"),),),
        dtype="float32",
    )
    rest = (*sparse_block(facts, size), bias, norms(size))
    layers = [
        LayerKind(
            (delta_state(linear) if kind == _LINEAR else kept,),
            (
                *(mixer if kind == _LINEAR else gated_attention(gated)),
                *rest,
                _over_layers(size, count=4 if index else 2),
            ),
        )
        for index, kind in enumerate(facts.value("layer_types")[:num_layers])
    ]
    rope = rope_cache(facts, kept.head_size)
    frame = Frame(
        size,
        rope,
        placement=Placement.EVERYWHERE,
        is_tied=False,
        is_head_quantizable=False,
        extra_final=(_over_layers(size, count=2),),
    )
    return decoder(facts, label, frame, layers, supports_pp=False)


def _over_layers(size: int, *, count: int) -> Replicated:
    """Return the vectors by which a layer chooses among earlier layers' outputs."""
    return Replicated("attn_res", Part.NORMS, ((size,),) * count)


READERS = {
    "AliceAIForCausalLM": read_alice_ai,
}
