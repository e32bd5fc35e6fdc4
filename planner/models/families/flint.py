"""Flint: windows, and experts with a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label, Placement
from planner.models.families.beam import float32_table
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
from planner.models.families.layered import SLIDING, Frame, decoder
from planner.models.layers import (
    Part,
    Sharded,
)

_FLINT_DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 150144,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 49,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "max_position_embeddings": 262144,
    "sliding_window": 513,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 1024,
    "num_experts_per_tok": 6,
    "num_experts": 256,
    "norm_topk_prob": True,
}


def read_flint(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Flint: sinks, windows, and a plain MLP in the layers that are listed.

    Source: vLLM 0.33.0 `models/flint/model.py`; its FlintConfig.
    """
    facts = Facts(facts.config, facts.model_type, _FLINT_DEFAULTS)
    shape = attention_shape(
        facts, qkv_bias=facts.flag("attention_bias"), has_qk_norm=True
    )
    size, num_layers = shape.hidden_size, facts.integer("num_hidden_layers")
    offsets = Sharded(
        name="self_attn.softmax_offset",
        part=Part.ATTENTION,
        shapes=((shape.num_heads,),),
        dtype="float32",
    )
    common = (*attention(shape), offsets, norms(size))
    sparse = experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=facts.integer("num_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("moe_intermediate_size"),
            shared_intermediate_size=facts.integer("shared_expert_intermediate_size"),
            shared_name="shared_expert",
            is_renormalized=facts.flag("norm_topk_prob"),
        )
    )
    dense = gated_mlp(size, facts.integer("intermediate_size"))
    plain = set(facts.value("mlp_only_layers") or ())
    unrotated = set(facts.value("no_rope_layer_indices") or ())
    window = _flint_window(facts)
    types = facts.value("layer_types") or [""] * num_layers
    kept = replace(kv_of(shape), has_sinks=True, needs_flashinfer=True)
    layers = (
        LayerKind(
            caches=(replace(kept, sliding_window=window if kind == SLIDING else None),),
            modules=(*common, *(dense if index in plain else sparse)),
        )
        for index, kind in enumerate(types)
    )
    has_table = len(unrotated) < num_layers
    frame = Frame(
        hidden_size=size,
        rope=float32_table(facts, shape) if has_table else (),
        placement=Placement.EVERYWHERE,
        is_tied=False,
    )
    return decoder(facts, label, frame, layers)


def _flint_window(facts: Facts) -> int | None:
    if not facts.flag("use_sliding_window", default=True):
        return None
    return facts.optional_integer("sliding_window")


READERS = {
    "FlintForCausalLM": read_flint,
}
