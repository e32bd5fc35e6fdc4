"""Experts with windows, sinks or gates of their own: Beam, Flint and K2 Horizon."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label, Placement
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
from planner.models.families.layered import SLIDING, Frame, decoder
from planner.models.families.rope import RotaryCache, rope_cache
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
    rope = _float32_table(_rotated(facts), shape) if SLIDING in types else ()
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


def _float32_table(facts: Facts, shape: AttentionShape) -> tuple[RotaryCache, ...]:
    tables = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    return tuple(replace(table, dtype="float32") for table in tables)


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
        rope=_float32_table(facts, shape) if has_table else (),
        placement=Placement.EVERYWHERE,
        is_tied=False,
    )
    return decoder(facts, label, frame, layers)


def _flint_window(facts: Facts) -> int | None:
    if not facts.flag("use_sliding_window", default=True):
        return None
    return facts.optional_integer("sliding_window")


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
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings", default=8192),
        dim=rotated,
    )
    frame = Frame(hidden_size=size, rope=rope, placement=Placement.EVERYWHERE)
    return decoder(facts, label, frame, layers)


def _k2_layer(facts: Facts, shape: AttentionShape, is_sparse: bool) -> LayerKind:
    size = shape.hidden_size
    has_gate_bias = facts.flag("moe_gate_bias")
    mova = facts.integer("mova_num_experts") if is_sparse else 0
    modules: Iterable[Module] = (
        _of_values(shape, mova, has_gate_bias) if mova else attention(shape)
    )
    if facts.value("attention_gate_func") is not None:
        gate = ColumnParallelLinear(
            name="self_attn.gate_proj",
            part=Part.ATTENTION,
            input_size=size,
            output_sizes=(shape.num_heads * shape.head_size,),
        )
        modules = (*modules, gate)
    mlp = (
        _k2_experts(facts, size, has_gate_bias)
        if is_sparse
        else gated_mlp(size, facts.integer("intermediate_size"))
    )
    return LayerKind(caches=(kv_of(shape),), modules=(*modules, norms(size), *mlp))


def _k2_experts(facts: Facts, size: int, has_bias: bool) -> tuple[Module, ...]:
    width = facts.integer("moe_intermediate_size")
    return experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=facts.integer("num_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=width,
            shared_intermediate_size=width * facts.integer("num_shared_experts"),
            has_correction_bias=has_bias,
            is_router_quantizable=True,
            is_renormalized=facts.flag("norm_topk_prob"),
        )
    )


def _of_values(
    shape: AttentionShape, num_experts: int, has_bias: bool
) -> tuple[Module, ...]:
    """Return attention whose values come from experts, each a projection of its own.

    Source: vLLM 0.33.0 `models/k2_horizon.py` K2HorizonMoVAAttention.
    """
    *_, output, scales, norm = attention(replace(shape, has_qk_norm_per_rank=True))
    size = shape.hidden_size
    bias = Replicated(
        name="self_attn.v_router.bias",
        part=Part.ATTENTION,
        shapes=((num_experts,),),
        dtype="float32",
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
        ReplicatedLinear(
            name="self_attn.v_router",
            part=Part.ATTENTION,
            input_size=size,
            output_sizes=(num_experts,),
        ),
        *((bias,) if has_bias else ()),
        *values,
        output,
        scales,
        *((norm,) if shape.has_qk_norm_per_rank else ()),
    )


READERS = {
    "BeamForCausalLM": read_beam,
    "FlintForCausalLM": read_flint,
    "K2HorizonForCausalLM": read_k2_horizon,
}
