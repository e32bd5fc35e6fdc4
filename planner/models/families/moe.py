"""Mixture-of-experts decoders with full attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
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
from planner.models.families.rope import rope_cache
from planner.models.families.windows import layer_windows
from planner.models.layers import ColumnParallelLinear, Module, Part, RowParallelLinear
from planner.values import frozen


@frozen
class _Family:
    """How a family of mixture-of-experts decoders differs from the next."""

    shape: AttentionShape
    experts: ExpertsShape
    is_sparse: Callable[[int], bool] = lambda _layer: True
    """Whether a layer holds experts rather than a plain MLP."""
    dense_intermediate_size: int = 0
    dense_bias: bool = False
    placement: Placement = Placement.BY_STAGE
    norm_bias: bool = False
    lm_head_bias: bool = False
    is_head_quantizable: bool = True
    shared_mlp: tuple[Module, ...] = ()
    """Beside the block of experts, where vLLM's class builds it there."""
    num_layers: int | None = None
    max_position: int | None = None
    rotary_dim: int | None = None
    mrope_positions_factor: int = 4


def _build(facts: Facts, label: Label, family: _Family) -> ModelArchitecture:
    num_layers = family.num_layers or facts.integer("num_hidden_layers")
    windows = layer_windows(facts, num_layers, has_layer_windows=False)
    kept = replace(kv_of(family.shape), sliding_window=windows[0])
    body = Body(
        kinds=(_sparse_layer(family, kept), _dense_layer(family, kept)),
        layers=tuple(
            0 if family.is_sparse(layer) else 1 for layer in range(num_layers)
        ),
    )
    return assemble(
        facts,
        label,
        _skeleton(facts, family),
        body,
        num_experts=_declared_experts(facts),
    )


def _declared_experts(facts: Facts) -> int:
    """Return the experts that vLLM's checks see; DBRX nests its field out of sight.

    Source: vLLM 0.33.0 `transformers_utils/config.py` CONFIG_FIELD_ALIASES.
    """
    names = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
    return facts.optional_integer(*names) or 0


def _common(family: _Family) -> tuple[Module, ...]:
    size = family.shape.hidden_size
    return (*attention(family.shape), norms(size, bias=family.norm_bias))


def _sparse_layer(family: _Family, kept: AttentionLayer) -> LayerKind:
    modules = (*_common(family), *experts(family.experts), *family.shared_mlp)
    return LayerKind(caches=(kept,), modules=modules)


def _dense_layer(family: _Family, kept: AttentionLayer) -> LayerKind:
    mlp = gated_mlp(
        family.shape.hidden_size,
        family.dense_intermediate_size,
        bias=family.dense_bias,
    )
    return LayerKind(caches=(kept,), modules=(*_common(family), *mlp))


def _skeleton(facts: Facts, family: _Family) -> Skeleton:
    size = family.shape.hidden_size
    max_position = family.max_position or facts.integer(
        "max_position_embeddings", default=8192
    )
    return Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(size, count=1, bias=family.norm_bias),),
        embeddings_on=family.placement,
        norm_on=family.placement,
        head_on=family.placement,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        lm_head_bias=family.lm_head_bias,
        is_head_quantizable=family.is_head_quantizable,
        every_stage=rope_cache(
            facts,
            head_size=family.shape.head_size,
            max_position=max_position,
            dim=family.rotary_dim,
            mrope_positions_factor=family.mrope_positions_factor,
        ),
    )


def _sparse_steps(facts: Facts) -> Callable[[int], bool]:
    """Which layers hold experts, by Qwen's fields.

    Source: vLLM 0.33.0 `models/qwen3_moe.py` Qwen3MoeDecoderLayer.
    """
    step = facts.integer("decoder_sparse_step", default=1)
    dense = set(facts.value("mlp_only_layers") or ())
    return lambda layer: layer not in dense and (layer + 1) % step == 0


_W_NAMES = ("w1", "w3", "w2")
"""Of an expert's gate, up and down projections, in checkpoints like Mixtral's."""


def read_mixtral(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Mixtral. Source: vLLM 0.33.0 `models/mixtral.py`."""
    shape = attention_shape(facts)
    family = _Family(
        shape=shape,
        experts=ExpertsShape(
            hidden_size=shape.hidden_size,
            num_experts=facts.integer("num_local_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("intermediate_size"),
            name="block_sparse_moe",
            shards=_W_NAMES,
        ),
        placement=Placement.EVERYWHERE,
    )
    return _build(facts, label, family)


def read_qwen_moe(
    facts: Facts, label: Label, *, mrope_positions_factor: int = 4
) -> ModelArchitecture:
    """Return Qwen1.5-MoE, Qwen2-MoE and Qwen3-MoE.

    Source: vLLM 0.33.0 `models/qwen2_moe.py` and `models/qwen3_moe.py`.
    """
    is_qwen2 = label.architecture.startswith("Qwen2")
    shape = attention_shape(
        facts,
        qkv_bias=is_qwen2 or facts.flag("attention_bias"),
        has_qk_norm=not is_qwen2,
    )
    shared = facts.optional_integer("shared_expert_intermediate_size") or 0
    family = _Family(
        shape=shape,
        experts=ExpertsShape(
            hidden_size=shape.hidden_size,
            num_experts=facts.integer("num_experts", "num_local_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("moe_intermediate_size"),
            shared_intermediate_size=shared,
            # Qwen2-MoE builds the gate whether or not there is a shared expert.
            has_shared_gate=is_qwen2 or bool(shared),
            shared_name="shared_expert",
            is_router_quantizable=not is_qwen2,
            is_renormalized=facts.flag("norm_topk_prob"),
        ),
        is_sparse=_sparse_steps(facts),
        dense_intermediate_size=facts.integer("intermediate_size"),
        placement=Placement.EVERYWHERE,
        mrope_positions_factor=mrope_positions_factor,
    )
    return _build(facts, label, family)


def read_glm4_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GLM-4.5 and similar models. Source: vLLM 0.33.0 `models/glm4_moe.py`."""
    shape = attention_shape(
        facts,
        qkv_bias=facts.flag("attention_bias"),
        has_qk_norm=facts.flag("use_qk_norm"),
    )
    moe_size = facts.integer("moe_intermediate_size")
    first_sparse = facts.integer("first_k_dense_replace")
    family = _Family(
        shape=shape,
        experts=ExpertsShape(
            hidden_size=shape.hidden_size,
            num_experts=facts.integer("n_routed_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=moe_size,
            shared_intermediate_size=moe_size
            * (facts.optional_integer("n_shared_experts") or 0),
            router_dtype="float32",
            has_correction_bias=True,
            is_renormalized=facts.flag("norm_topk_prob"),
        ),
        is_sparse=lambda layer: layer >= first_sparse,
        dense_intermediate_size=facts.integer("intermediate_size"),
    )
    return _build(facts, label, family)


def read_minimax_m2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MiniMax-M2. Source: vLLM 0.33.0 `models/minimax_m2.py`."""
    shape = replace(attention_shape(facts), has_qk_norm_per_rank=True)
    family = _Family(
        shape=shape,
        experts=ExpertsShape(
            hidden_size=shape.hidden_size,
            num_experts=facts.integer("num_local_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("intermediate_size"),
            router_dtype="float32",
            has_correction_bias=facts.flag("use_routing_bias"),
            shards=_W_NAMES,
        ),
        rotary_dim=facts.optional_integer("rotary_dim"),
    )
    return _build(facts, label, family)


def read_dbrx(facts: Facts, label: Label) -> ModelArchitecture:
    """Return DBRX. Source: vLLM 0.33.0 `models/dbrx.py`."""
    attn = Facts(facts.mapping("attn_config"), "dbrx")
    ffn = Facts(facts.mapping("ffn_config"), "dbrx")
    size = facts.integer("d_model", "hidden_size")
    num_heads = facts.integer("n_heads", "num_attention_heads")
    shape = AttentionShape(
        hidden_size=size,
        num_heads=num_heads,
        num_kv_heads=attn.integer("kv_n_heads", default=1),
        head_size=size // num_heads,
    )
    family = _Family(
        shape=shape,
        experts=ExpertsShape(
            hidden_size=size,
            num_experts=ffn.integer("moe_num_experts"),
            top_k=ffn.integer("moe_top_k"),
            intermediate_size=ffn.integer("ffn_hidden_size"),
        ),
        num_layers=facts.integer("n_layers", "num_hidden_layers"),
        max_position=facts.integer("max_seq_len", "max_position_embeddings"),
        placement=Placement.EVERYWHERE,
    )
    return _build(facts, label, family)


def read_olmoe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return OLMoE. Source: vLLM 0.33.0 `models/olmoe.py`."""
    plain = attention_shape(facts)
    shape = replace(
        plain,
        qk_norm_sizes=(
            plain.num_heads * plain.head_size,
            plain.num_kv_heads * plain.head_size,
        ),
    )
    family = _Family(
        shape=shape,
        experts=ExpertsShape(
            hidden_size=shape.hidden_size,
            num_experts=facts.integer("num_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("intermediate_size"),
            is_renormalized=False,  # whatever norm_topk_prob says
        ),
        placement=Placement.EVERYWHERE,
    )
    return _build(facts, label, family)


def read_granite_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Granite MoE, with or without a shared expert.

    Source: vLLM 0.33.0 `models/granitemoe.py` and `models/granitemoeshared.py`.
    """
    shape = attention_shape(facts)
    has_shared = label.architecture.startswith("GraniteMoeShared")
    shared = facts.optional_integer("shared_intermediate_size") if has_shared else 0
    family = _Family(
        shape=shape,
        experts=ExpertsShape(
            hidden_size=shape.hidden_size,
            num_experts=facts.integer("num_local_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("intermediate_size"),
            name="block_sparse_moe",
        ),
        shared_mlp=_granite_shared_mlp(shape.hidden_size, shared or 0),
        placement=Placement.EVERYWHERE,
    )
    return _build(facts, label, family)


def _granite_shared_mlp(hidden_size: int, intermediate_size: int) -> tuple[Module, ...]:
    """Return the shared expert, under the names of Granite's checkpoints.

    Source: vLLM 0.33.0 `models/granitemoeshared.py` GraniteMoeSharedMLP.
    """
    if not intermediate_size:
        return ()
    return (
        ColumnParallelLinear(
            name="shared_mlp.input_linear",
            part=Part.SHARED_EXPERTS,
            input_size=hidden_size,
            output_sizes=(intermediate_size, intermediate_size),
        ),
        RowParallelLinear(
            name="shared_mlp.output_linear",
            part=Part.SHARED_EXPERTS,
            input_size=intermediate_size,
            output_size=hidden_size,
        ),
    )


def read_phimoe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Phi-3.5-MoE. Source: vLLM 0.33.0 `models/phimoe.py`."""
    shape = attention_shape(facts, qkv_bias=True, output_bias=True)
    family = _Family(
        shape=shape,
        experts=ExpertsShape(
            hidden_size=shape.hidden_size,
            num_experts=facts.integer("num_local_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("intermediate_size"),
            is_renormalized=False,  # its own routing function
            name="block_sparse_moe",
            shards=_W_NAMES,
        ),
        norm_bias=True,
        lm_head_bias=True,
        is_head_quantizable=False,
        placement=Placement.EVERYWHERE,
    )
    return _build(facts, label, family)


def read_ernie45_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return ERNIE 4.5 MoE. Source: vLLM 0.33.0 `models/ernie45_moe.py`."""
    has_bias = facts.flag("use_bias")
    shape = attention_shape(facts, qkv_bias=has_bias, output_bias=False)
    moe_size = facts.integer("moe_intermediate_size")
    start = facts.integer("moe_layer_start_index", default=0)
    end = facts.integer(
        "moe_layer_end_index", default=facts.integer("num_hidden_layers") - 1
    )
    step = facts.integer("moe_layer_interval", default=1)
    family = _Family(
        shape=shape,
        experts=ExpertsShape(
            hidden_size=shape.hidden_size,
            num_experts=facts.integer("moe_num_experts"),
            top_k=facts.integer("moe_k"),
            intermediate_size=moe_size,
            shared_intermediate_size=moe_size
            * (facts.optional_integer("moe_num_shared_experts") or 0),
            router_dtype="float32",
            has_correction_bias=True,
            is_renormalized=False,  # softmax with a bias has no kernel of its own
            shared_bias=has_bias,
        ),
        is_sparse=lambda layer: start <= layer <= end and (layer + 1) % step == 0,
        dense_intermediate_size=facts.integer("intermediate_size"),
        dense_bias=has_bias,
    )
    return _build(facts, label, family)


READERS = {
    "MixtralForCausalLM": read_mixtral,
    "Qwen2MoeForCausalLM": read_qwen_moe,
    "Qwen3MoeForCausalLM": read_qwen_moe,
    "Glm4MoeForCausalLM": read_glm4_moe,
    "MiniMaxM2ForCausalLM": read_minimax_m2,
    "DbrxForCausalLM": read_dbrx,
    "OlmoeForCausalLM": read_olmoe,
    "GraniteMoeForCausalLM": read_granite_moe,
    "GraniteMoeSharedForCausalLM": read_granite_moe,
    "PhiMoEForCausalLM": read_phimoe,
    "Ernie4_5_MoeForCausalLM": read_ernie45_moe,
}
