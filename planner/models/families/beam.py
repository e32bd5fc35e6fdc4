"""Beam: experts, windows, sinks and gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.decoder import (
    AttentionShape,
    ExpertsShape,
    attention_scales,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import SLIDING, Frame, decoder
from planner.models.families.rope import RotaryCache, rope_cache
from planner.models.layers import (
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    RowParallelLinear,
    Sharded,
)

_BEAM_DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "moe_intermediate_size": 768,
    "num_experts_per_tok": 8,
    "num_experts": 128,
    "norm_topk_prob": True,
}


def read_beam(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Beam: a gate on the attention with a bias per head, norms on both sides.

    Source: vLLM 0.33.0 `models/beam/nvidia/model.py`; its BeamConfig.

    Raises:
        UnknownArchitecture: for a tied head, which vLLM does not build either.
    """
    facts = Facts(facts.config, facts.model_type, _BEAM_DEFAULTS)
    if facts.flag("tie_word_embeddings"):
        raise facts.unsupported("tie_word_embeddings", "vLLM refuses a tied head.")
    shape = attention_shape(facts)
    num_layers = facts.integer("num_hidden_layers")
    types = facts.value("layer_types") or [SLIDING] * num_layers
    mlps = facts.value("mlp_layer_types") or ["sparse"] * num_layers
    common = (*_beam_attention(shape), norms(shape.hidden_size, count=4))
    sparse = experts(
        ExpertsShape(
            hidden_size=shape.hidden_size,
            num_experts=facts.integer("num_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("moe_intermediate_size"),
            router_dtype="float32",
            has_correction_bias=True,
            is_renormalized=facts.flag("norm_topk_prob"),
        )
    )
    dense = gated_mlp(shape.hidden_size, facts.integer("intermediate_size"))
    window = facts.integer("sliding_window")
    layers = (
        LayerKind(
            caches=(
                replace(
                    kv_of(shape), sliding_window=window if kind == SLIDING else None
                ),
            ),
            modules=(*common, *(dense if mlp == "dense" else sparse)),
        )
        for kind, mlp in zip(types, mlps, strict=True)
    )
    rope = float32_table(_rotated(facts), shape) if SLIDING in types else ()
    return decoder(
        facts, label, Frame(hidden_size=shape.hidden_size, rope=rope), layers
    )


def _beam_attention(shape: AttentionShape) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/beam/nvidia/attention.py` BeamAttention."""
    return (
        QKVParallelLinear(
            name="self_attn.qkv_gate_proj",
            input_size=shape.hidden_size,
            # The gate is as wide as the queries.
            num_heads=2 * shape.num_heads,
            num_kv_heads=shape.num_kv_heads,
            head_size=shape.head_size,
            shards=("q_proj", "k_proj", "v_proj", "gate_proj"),
        ),
        RowParallelLinear(
            name="self_attn.o_proj",
            part=Part.ATTENTION,
            input_size=shape.num_heads * shape.head_size,
            output_size=shape.hidden_size,
        ),
        Replicated(
            name="self_attn.qk_norm",
            part=Part.NORMS,
            shapes=((shape.head_size,), (shape.head_size,)),
        ),
        Sharded(
            name="self_attn.gate_bias",
            part=Part.ATTENTION,
            shapes=((shape.num_heads,),),
        ),
        attention_scales(),
    )


def _rotated(facts: Facts) -> Facts:
    """Return the config with the one set of rotary parameters that some layers have."""
    given = facts.mapping("rope_parameters")
    if not given or not set(given) <= {SLIDING, "full_attention"}:
        return facts
    (own,) = (value for value in given.values() if value is not None)
    return Facts({**facts.config, "rope_parameters": own}, facts.model_type)


def float32_table(facts: Facts, shape: AttentionShape) -> tuple[RotaryCache, ...]:
    """Return the table of cosines, float32 whatever the model's dtype."""
    tables = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    return tuple(replace(table, dtype="float32") for table in tables)


READERS = {
    "BeamForCausalLM": read_beam,
}
