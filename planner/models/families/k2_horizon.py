"""K2 Horizon: values that come from experts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, Placement, assemble
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.mixtures import shared_by_count
from planner.models.families.rope import rope_cache
from planner.models.families.styles import Experts, experts_shape
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    ReplicatedLinear,
)

_EXPERTS = Experts(
    shared=shared_by_count,
    has_correction_bias="moe_gate_bias",
    is_router_quantizable=True,
    is_renormalized="norm_topk_prob",
)


def read_k2_horizon(facts: Facts, label: Label) -> ModelArchitecture:
    """Return K2 Horizon: values from experts, a gate on the attention.

    Source: vLLM 0.33.0 `models/k2_horizon.py`.
    """
    if facts.value("dual_chunk_attention_config") is not None:
        raise facts.unsupported("dual_chunk_attention_config", "plain attention is.")
    bias = facts.flag("attention_bias")
    shape = attention_shape(facts, qkv_bias=bias, output_bias=bias)
    shape = replace(shape, has_qk_norm_per_rank=facts.flag("query_key_norm"))
    size, num_layers = shape.hidden_size, facts.integer("num_hidden_layers")
    count = facts.integer("num_experts")
    plain = set(facts.value("mlp_only_layers") or ())
    step = facts.integer("decoder_sparse_step")
    sparse, dense = _k2_layer(facts, shape, True), _k2_layer(facts, shape, False)
    layers = (
        sparse if count and i not in plain and (i + 1) % step == 0 else dense
        for i in range(num_layers)
    )
    rotated = facts.optional_integer("rope_head_dim") or shape.head_size
    rope = rope_cache(
        facts,
        shape.head_size,
        default_positions=8192,
        dim=rotated,
    )
    frame = Frame(size, rope, placement=Placement.EVERYWHERE)
    return assemble(facts, label, frame, layers)


def _k2_layer(facts: Facts, shape: AttentionShape, is_sparse: bool) -> LayerKind:
    size = shape.hidden_size
    has_gate_bias = facts.flag("moe_gate_bias")
    mova = facts.integer("mova_num_experts") if is_sparse else 0
    modules: Iterable[Module] = (
        _of_values(shape, mova, has_gate_bias) if mova else attention(shape)
    )
    if facts.value("attention_gate_func") is not None:
        gate = ColumnParallelLinear(
            "self_attn.gate_proj",
            Part.ATTENTION,
            size,
            (shape.num_heads * shape.head_size,),
        )
        modules = (*modules, gate)
    mlp = (
        experts(experts_shape(facts, _EXPERTS))
        if is_sparse
        else gated_mlp(size, facts.integer("intermediate_size"))
    )
    return LayerKind((kv_of(shape),), (*modules, norms(size), *mlp))


def _of_values(
    shape: AttentionShape, num_experts: int, has_bias: bool
) -> tuple[Module, ...]:
    """Return attention whose values come from experts, each a projection of its own.

    Source: vLLM 0.33.0 `models/k2_horizon.py` K2HorizonMoVAAttention.
    """
    *_, output, scales, norm = attention(replace(shape, has_qk_norm_per_rank=True))
    size = shape.hidden_size
    bias = Replicated(
        "self_attn.v_router.bias", Part.ATTENTION, ((num_experts,),), dtype="float32"
    )
    heads = QKVParallelLinear(
        name="",
        input_size=size,
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_size=shape.head_size,
        head_size_v=0,
        bias=shape.qkv_bias,
    )
    values = (
        replace(
            heads,
            name=f"self_attn.v_experts.{index}",
            num_heads=0,  # keys' rows are the values'
            bias=False,
            shards=(),
        )
        for index in range(num_experts)
    )
    return (
        replace(heads, name="self_attn.qk_proj", shards=("q_proj", "k_proj")),
        ReplicatedLinear("self_attn.v_router", Part.ATTENTION, size, (num_experts,)),
        *((bias,) if has_bias else ()),
        *values,
        output,
        scales,
        *((norm,) if shape.has_qk_norm_per_rank else ()),
    )


READERS = {
    "K2HorizonForCausalLM": read_k2_horizon,
}
