"""LFM2: short convolutions with attention in some layers, plain MLPs or experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import (
    Frame,
    Label,
    Placement,
    assemble,
    in_both_directions,
)
from planner.models.families.decoder import (
    attention,
    even_shape,
    experts,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.heads import pooled
from planner.models.families.rope import rope_cache
from planner.models.families.styles import Experts, experts_shape, unless_off
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    RowParallelLinear,
)
from planner.models.states import ShortConvolutionState

_FULL, _CONV = "full_attention", "conv"


def read_lfm2(facts: Facts, label: Label) -> ModelArchitecture:
    """Read LFM2; vLLM always ties its head.

    Source: vLLM 0.33.0 `models/lfm2.py` Lfm2ForCausalLM; Transformers' Lfm2Config.
    """
    mlp = _mlp(facts.integer("block_dim"), _adjusted_size(facts))
    layers = [
        _layer(facts, kind, facts.integer("conv_dim"), mlp)
        for kind in _layer_types(facts)
    ]
    return _build(facts, label, layers)


def read_lfm2_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Read LFM2 with experts, except in the first few layers.

    Source: vLLM 0.33.0 `models/lfm2_moe.py` Lfm2MoeForCausalLM.
    """
    hidden_size = facts.integer("hidden_size")
    dense = _mlp(hidden_size, facts.integer("intermediate_size"))
    num_dense = facts.integer("num_dense_layers")
    layers = [
        _layer(
            facts,
            kind,
            hidden_size,
            dense if index < num_dense else experts(experts_shape(facts, _EXPERTS)),
        )
        for index, kind in enumerate(_layer_types(facts))
    ]
    return _build(facts, label, layers)


def _build(
    facts: Facts, label: Label, layers: Sequence[LayerKind]
) -> ModelArchitecture:
    frame = Frame(
        facts.integer("hidden_size"),
        rope_cache(facts, even_shape(facts).head_size),
        embeddings_on=Placement.EVERYWHERE,
        is_tied=True,
    )
    return assemble(facts, label, frame, layers)


def _layer_types(facts: Facts) -> tuple[str, ...]:
    """Return each layer's kind, from a list or the places of attention."""
    num_layers = facts.integer("num_hidden_layers")
    given = facts.value("layer_types")
    if given is None:
        full = facts.value("full_attn_idxs")
        full = range(num_layers) if full is None else full
        given = [_FULL if i in full else _CONV for i in range(num_layers)]
    if not set(given) <= {_FULL, _CONV} or len(given) < num_layers:
        raise facts.unsupported("layer_types", f"{_FULL} and {_CONV} are, one each.")
    return tuple(given[:num_layers])


def _layer(
    facts: Facts, kind: str, conv_dim: int, feed_forward: tuple[Module, ...]
) -> LayerKind:
    rest = (norms(facts.integer("hidden_size")), *feed_forward)
    if kind == _FULL:
        plain = even_shape(facts)
        shape = replace(plain, qk_norm_sizes=(plain.head_size,) * 2)
        modules = attention(shape, output="out_proj")
        return LayerKind((kv_of(shape),), (*modules, *rest))
    state = ShortConvolutionState(
        intermediate_size=conv_dim, conv_kernel=facts.integer("conv_L_cache")
    )
    mixer = short_convolution(state, bias=facts.flag("conv_bias"))
    return LayerKind((state,), (*mixer, *rest))


def short_convolution(
    state: ShortConvolutionState, *, bias: bool
) -> tuple[Module, ...]:
    """Return the modules of a short convolution.

    Source: vLLM 0.33.0 `layers/mamba/short_conv.py` ShortConv.
    """
    size = state.intermediate_size
    return (
        ColumnParallelLinear(
            "short_conv.conv1d",
            Part.MIXERS,
            state.conv_kernel,
            (size,),
            bias=bias,
            is_quantizable=False,
        ),
        ColumnParallelLinear(
            "short_conv.in_proj", Part.MIXERS, size, (size, size, size), bias=bias
        ),
        RowParallelLinear("short_conv.out_proj", Part.MIXERS, size, size, bias=bias),
    )


def _adjusted_size(facts: Facts) -> int:
    """Return the width of the MLP, two thirds of it in round numbers where configured.

    Source: vLLM 0.33.0 `models/lfm2.py` Lfm2MLP.
    """
    size = facts.integer("block_ff_dim", "intermediate_size")
    if not facts.flag("block_auto_adjust_ff_dim", default=True):
        return size
    size = int(2 * size / 3)
    factor = facts.config.get("block_ffn_dim_multiplier", 1.0)
    if isinstance(factor, int | float):
        size = int(factor * size)
    step = facts.integer("block_multiple_of", default=256)
    return -(-size // step) * step


def _mlp(hidden_size: int, size: int) -> tuple[Module, ...]:
    return (
        ColumnParallelLinear(
            "feed_forward.w13", Part.MLP, hidden_size, (size, size), shards=("w1", "w3")
        ),
        RowParallelLinear("feed_forward.w2", Part.MLP, size, hidden_size),
    )


_EXPERTS = Experts(
    has_correction_bias=unless_off("use_expert_bias"),
    is_renormalized=unless_off("norm_topk_prob"),
    name="feed_forward",
    is_router_quantizable=True,
    shards=("w1", "w3", "w2"),
)
"""Source: vLLM 0.33.0 `models/lfm2_moe.py` Lfm2MoeSparseMoeBlock."""


def read_lfm2_bidirectional(facts: Facts, label: Label) -> ModelArchitecture:
    """Read LFM2 for embeddings, which looks in both directions and keeps nothing.

    Source: vLLM 0.33.0 `models/lfm2.py` Lfm2BidirectionalModel.
    """
    model = in_both_directions(read_lfm2(facts, label))
    return pooled(replace(model, supports_pp=False), label, (), is_whole=True)


READERS = {
    "Lfm2BidirectionalModel": read_lfm2_bidirectional,
    "Lfm2ForCausalLM": read_lfm2,
    "Lfm2MoeForCausalLM": read_lfm2_moe,
}
