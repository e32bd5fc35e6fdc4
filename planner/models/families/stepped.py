"""Experts with a gate on the attention, or heads that differ by layer.

Laguna, Step 3 and Step 3.5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Label
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
from planner.models.families.layered import (
    FULL,
    SLIDING,
    Frame,
    decoder,
    is_sliding,
    sinks,
    typed_ropes,
)
from planner.models.families.rope import rope_cache
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)
from planner.values import frozen


@frozen
class _Gate:
    """A projection whose output scales that of the attention."""

    columns: int

    def module(self, shape: AttentionShape) -> Module:
        return ColumnParallelLinear(
            name="self_attn.g_proj",
            part=Part.ATTENTION,
            input_size=shape.hidden_size,
            output_sizes=(self.columns,),
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
    sparse, dense = _laguna_experts(facts), _laguna_mlp(facts)
    layers = []
    for index, mlp in enumerate(facts.value("mlp_layer_types")):
        shape = replace(plain, num_heads=heads[index]) if heads else plain
        modules: tuple[Module, ...] = (*attention(shape), norms(size))
        if gating:
            is_by_head = gating is True or gating == "per-head"
            columns = shape.num_heads * (1 if is_by_head else shape.head_size)
            modules = (*modules, _Gate(columns=columns).module(shape))
        kept = replace(kv_of(shape), sliding_window=window if sliding[index] else None)
        if sliding[index] and has_sinks:
            modules = (*modules, sinks(shape.num_heads))
            kept = replace(kept, has_sinks=True)
        modules = (*modules, *(sparse if mlp == "sparse" else dense))
        layers.append(LayerKind(caches=(kept,), modules=modules))
    own = facts.value("swa_rope_parameters")
    rope = typed_ropes(
        facts,
        (SLIDING if each else FULL for each in sliding),
        head_size=plain.head_size,
        max_position=facts.integer("max_position_embeddings"),
        local=_with_rope(facts, own) if own else None,
    )
    return decoder(facts, label, Frame(hidden_size=size, rope=rope), layers)


def _with_rope(facts: Facts, parameters: Any) -> Facts:  # noqa: ANN401 - the untyped border
    config = {**facts.config, "rope_scaling": None, "rope_parameters": parameters}
    return Facts(config, facts.model_type)


def _laguna_mlp(facts: Facts) -> tuple[Module, ...]:
    size, width = facts.integer("hidden_size"), facts.integer("intermediate_size")
    gate, up = (
        ColumnParallelLinear(
            name=f"mlp.{name}", part=Part.MLP, input_size=size, output_sizes=(width,)
        )
        for name in ("gate_proj", "up_proj")
    )
    return (gate, up, gated_mlp(size, width)[1])


def _laguna_experts(facts: Facts) -> tuple[Module, ...]:
    size = facts.integer("hidden_size")
    shared = facts.optional_integer("shared_expert_intermediate_size") or 0
    modules = experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=facts.integer("num_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("moe_intermediate_size"),
            has_correction_bias=True,
        )
    )
    if not shared:
        return modules
    return (
        *modules,
        *gated_mlp(size, shared, part=Part.SHARED_EXPERTS, name="mlp.shared_expert"),
    )


def read_step3_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step 3: one KV head, queries through a narrow layer.

    Source: vLLM 0.33.0 `models/step3_text.py`.
    """
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    head_size = facts.integer("head_dim")
    narrow = facts.optional_integer("share_q_dim") or heads * head_size
    common = (
        ReplicatedLinear(
            name="self_attn.qkv_proj",
            part=Part.ATTENTION,
            input_size=size,
            output_sizes=(narrow, head_size, head_size),
            shards=("q_proj", "k_proj", "v_proj"),
        ),
        RowParallelLinear(
            name="self_attn.o_proj",
            part=Part.ATTENTION,
            input_size=heads * head_size,
            output_size=size,
        ),
        Replicated(name="self_attn.inter_norm", part=Part.NORMS, shapes=((narrow,),)),
        ColumnParallelLinear(
            name="self_attn.wq",
            part=Part.ATTENTION,
            input_size=narrow,
            output_sizes=(heads * head_size,),
        ),
        attention_scales(),
        norms(size),
    )
    sparse = (
        *experts(
            ExpertsShape(
                hidden_size=size,
                num_experts=facts.integer("moe_num_experts"),
                top_k=facts.integer("moe_top_k"),
                intermediate_size=facts.integer("moe_intermediate_size"),
                is_renormalized=facts.flag("norm_expert_weight"),
                name="moe",
            )
        ),
        *gated_mlp(
            size,
            facts.integer("share_expert_dim"),
            part=Part.SHARED_EXPERTS,
            name="share_expert",
        ),
    )
    dense = gated_mlp(size, facts.integer("intermediate_size"))
    kept = AttentionLayer(num_heads=heads, num_kv_heads=1, head_size=head_size)
    num_layers = facts.integer("num_hidden_layers")
    listed = _listed(facts.value("moe_layers_enum"), range(1, num_layers))
    layers = (
        LayerKind(
            caches=(kept,), modules=(*common, *(sparse if i in listed else dense))
        )
        for i in range(num_layers)
    )
    rope = rope_cache(
        facts,
        head_size=head_size,
        max_position=facts.integer(
            "max_position_embedding", "max_position_embeddings", default=8192
        ),
    )
    # vLLM's class passes no quantisation to its head, and never ties it.
    frame = Frame(hidden_size=size, rope=rope, is_head_quantizable=False, is_tied=False)
    return decoder(facts, label, frame, layers)


def _listed(given: Any, default: range) -> set[int]:  # noqa: ANN401 - the untyped border
    """Return the layers with experts, as Step's configs list them."""
    if given is None:
        return set(default)
    names = given.strip().split(",") if isinstance(given, str) else given
    return {int(name) for name in names}


def read_step3p5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step 3.5: windows, and heads whose number differs with them.

    Source: vLLM 0.33.0 `models/step3p5.py`.
    """
    num_layers = facts.integer("num_hidden_layers")
    types = (facts.value("layer_types") or [FULL] * num_layers)[:num_layers]
    sparse = _step3p5_experts(facts)
    dense = gated_mlp(facts.integer("hidden_size"), facts.integer("intermediate_size"))
    mlps = facts.value("mlp_layer_types")
    listed = _listed(facts.value("moe_layers_enum"), range(1, num_layers))
    if mlps is not None:
        listed = {i for i, kind in enumerate(mlps) if kind == "sparse"}
    layers = [
        _step3p5_layer(facts, kind, sparse if i in listed else dense)
        for i, kind in enumerate(types)
    ]
    head_size = facts.optional_integer("head_dim") or facts.integer(
        "hidden_size"
    ) // facts.integer("num_attention_heads")
    frame = Frame(
        hidden_size=facts.integer("hidden_size"),
        rope=_step3p5_ropes(facts, types, head_size),
        is_tied=False,
    )
    return decoder(facts, label, frame, layers)


def _step3p5_layer(facts: Facts, kind: str, mlp: tuple[Module, ...]) -> LayerKind:
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
        modules = (*modules, _Gate(columns=heads).module(shape))
    window = facts.optional_integer("sliding_window") if kind == SLIDING else None
    return LayerKind(
        caches=(replace(kv_of(shape), sliding_window=window),),
        modules=(*modules, *mlp),
    )


def _step3p5_experts(facts: Facts) -> tuple[Module, ...]:
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


def _step3p5_ropes(
    facts: Facts, types: list[str], head_size: int
) -> tuple[Module, ...]:
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
        own = _with_rope(facts, rope)
        key = str(sorted(rope.items(), key=str))
        if key not in tables:
            (tables[key],) = rope_cache(
                own, head_size=head_size, max_position=max_position
            )
    return tuple(tables.values())


READERS = {
    "LagunaForCausalLM": read_laguna,
    "Step3TextForCausalLM": read_step3_text,
    "Step3p5ForCausalLM": read_step3p5,
}
