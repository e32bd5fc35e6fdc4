"""Mixture-of-experts decoders with a first few plain layers: Ling, Hunyuan, Sarvam.

Also Param2MoE and Cohere 2 MoE.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label, Placement
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
from planner.models.families.layered import (
    Frame,
    decoder,
    is_sliding,
)
from planner.models.families.rope import rope_cache
from planner.values import frozen


@frozen(kw_only=False)
class _Parts:
    """What a layer has, and how many of the first have a plain MLP.

    `num_dense` None is the config's first_k_dense_replace.
    """

    shape: AttentionShape
    sparse: ExpertsShape
    rotary_dim: int | None = None
    num_dense: int | None = None
    dense_bias: bool = False
    placement: Placement = Placement.BY_STAGE


def read_bailing(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Ling and Ring, and Sarvam-M's experts, which are built alike.

    Source: vLLM 0.33.0 `models/bailing_moe.py`, `models/sarvam.py`
    SarvamMoEForCausalLM.
    """
    has_bias = facts.flag("use_bias")
    shape = attention_shape(
        facts,
        qkv_bias=has_bias or facts.flag("use_qkv_bias"),
        output_bias=has_bias,
        has_qk_norm=facts.flag("use_qk_norm"),
    )
    if shape.qk_norm_sizes and not facts.flag("use_rmsnorm"):
        shape = replace(shape, qk_norm_sizes=(shape.head_size,) * 4)
    width = facts.integer("moe_intermediate_size")
    shared = facts.optional_integer("moe_shared_expert_intermediate_size") or width
    router = facts.value("router_dtype")
    sparse = ExpertsShape(
        hidden_size=shape.hidden_size,
        num_experts=facts.integer("num_experts"),
        top_k=facts.integer("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=shared * facts.integer("num_shared_experts"),
        shared_bias=has_bias,
        router_dtype={None: None, "fp32": "float32"}.get(router, "bfloat16"),
        has_correction_bias=facts.flag("moe_router_enable_expert_bias"),
        is_renormalized=facts.flag("norm_topk_prob"),
    )
    factor = facts.number("partial_rotary_factor", default=1.0)
    dim = facts.optional_integer("rotary_dim") or int(shape.head_size * factor)
    parts = _Parts(shape, sparse, rotary_dim=dim, dense_bias=has_bias)
    return _first_dense(facts, label, parts)


def read_param2moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Param-2. Source: vLLM 0.33.0 `models/param2moe.py`."""
    shape = attention_shape(
        facts,
        qkv_bias=facts.flag("use_qkv_bias"),
        output_bias=facts.flag("use_bias"),
        has_qk_norm=facts.flag("use_qk_norm"),
    )
    width = facts.integer("moe_intermediate_size")
    count = facts.integer("num_shared_experts", default=1)
    own = facts.optional_integer("moe_shared_expert_intermediate_size")
    sparse = ExpertsShape(
        hidden_size=shape.hidden_size,
        num_experts=facts.integer("num_experts"),
        top_k=facts.integer("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=(width * count if own is None else own)
        if count
        else 0,
        router_dtype="float32",
        has_correction_bias=facts.flag("moe_router_enable_expert_bias", default=True),
        is_renormalized=facts.flag("norm_topk_prob", default=True),
    )
    dim = int(shape.head_size * facts.number("partial_rotary_factor", default=1.0))
    first = facts.integer("first_k_dense_replace", default=1)
    parts = _Parts(shape, sparse, rotary_dim=dim, num_dense=first)
    return _first_dense(facts, label, parts)


def read_hy_v3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Hunyuan V3, whose embeddings and head are on every stage.

    Source: vLLM 0.33.0 `models/hy_v3.py`.
    """
    shape = attention_shape(facts, has_qk_norm=facts.flag("qk_norm"))
    width = facts.integer("expert_hidden_dim", "moe_intermediate_size")
    sparse = ExpertsShape(
        hidden_size=shape.hidden_size,
        num_experts=facts.integer("num_experts"),
        top_k=facts.integer("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=width * facts.integer("num_shared_experts"),
        router_dtype="float32",
        has_correction_bias=True,
        is_renormalized=facts.flag("route_norm"),
        shared_name="shared_mlp",
    )
    parts = _Parts(shape, sparse, placement=Placement.EVERYWHERE)
    return _first_dense(facts, label, parts)


def _first_dense(facts: Facts, label: Label, parts: _Parts) -> ModelArchitecture:
    """Return a model of full attention whose first layers have a plain MLP."""
    shape, size = parts.shape, parts.shape.hidden_size
    common = (*attention(shape), norms(size))
    dense = gated_mlp(size, facts.integer("intermediate_size"), bias=parts.dense_bias)
    kept = (kv_of(shape),)
    dense_layer = LayerKind(caches=kept, modules=(*common, *dense))
    sparse_layer = LayerKind(caches=kept, modules=(*common, *experts(parts.sparse)))
    first = parts.num_dense
    if first is None:
        first = facts.integer("first_k_dense_replace")
    rope = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings", default=8192),
        dim=parts.rotary_dim,
    )
    frame = Frame(hidden_size=size, rope=rope, placement=parts.placement)
    num_layers = facts.integer("num_hidden_layers")
    return decoder(
        facts,
        label,
        frame,
        (dense_layer if i < first else sparse_layer for i in range(num_layers)),
    )


def read_cohere2_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Cohere 2 MoE: one norm a layer, the head tied to the embeddings.

    Source: vLLM 0.33.0 `models/cohere2_moe.py`.
    """
    shape = attention_shape(facts)
    size, width = shape.hidden_size, facts.integer("intermediate_size")
    sparse = experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=facts.integer("num_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=width,
            shared_intermediate_size=width
            * (facts.optional_integer("num_shared_experts") or 0),
            is_renormalized=facts.flag("norm_topk_prob", default=True)
            and facts.value("expert_selection_fn") != "sigmoid",
        )
    )
    dense = gated_mlp(
        size, facts.integer("prefix_dense_intermediate_size", default=width)
    )
    mlp_types = facts.value("mlp_layer_types")
    window = facts.integer("sliding_window") + 1
    layers = [
        LayerKind(
            caches=(replace(kv_of(shape), sliding_window=window if w else None),),
            modules=(
                *attention(shape),
                norms(size, count=1),
                *(dense if mlp == "dense" else sparse),
            ),
        )
        for w, mlp in zip(is_sliding(facts), mlp_types, strict=True)
    ]
    max_position = facts.optional_integer("model_max_length") or facts.integer(
        "max_position_embeddings", default=8192
    )
    rope = rope_cache(facts, head_size=shape.head_size, max_position=max_position)
    frame = Frame(
        hidden_size=size, rope=rope, placement=Placement.EVERYWHERE, is_tied=True
    )
    return decoder(facts, label, frame, layers)


READERS = {
    "BailingMoeForCausalLM": read_bailing,
    "BailingMoeV2ForCausalLM": read_bailing,
    "SarvamMoEForCausalLM": read_bailing,
    "Param2MoEForCausalLM": read_param2moe,
    "HYV3ForCausalLM": read_hy_v3,
    "Cohere2MoeForCausalLM": read_cohere2_moe,
}
