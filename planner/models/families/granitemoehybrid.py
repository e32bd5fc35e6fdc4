"""Granite 4: Mamba 2 and attention by layer, with experts or without."""

from __future__ import annotations

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import (
    attention,
    attention_shape,
    experts,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.mamba_mixers import mamba2
from planner.models.families.mixtures import (
    GRANITE,
    GRANITE_EXPERTS,
    granite_shared_mlp,
)
from planner.models.families.rope import rope_cache
from planner.models.families.styles import experts_shape
from planner.models.layers import Module
from planner.models.states import Mamba2State

_LINEAR, _FULL = ("linear_attention", "mamba"), ("full_attention", "attention")


def read_granite_hybrid(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Granite 4; embeddings, norm and head are on every stage.

    Source: vLLM 0.33.0 `models/granitemoehybrid.py` GraniteMoeHybridForCausalLM.
    """
    hidden_size = facts.integer("hidden_size")
    body = Body.of(_layer(facts, kind) for kind in _layer_types(facts))
    skeleton = Skeleton(
        hidden_size=hidden_size,
        placement=Placement.EVERYWHERE,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        every_stage=_rope(facts),
    )
    return assemble(
        facts,
        label,
        skeleton,
        body,
        num_experts=facts.optional_integer("num_local_experts") or 0,
    )


def _layer_types(facts: Facts) -> tuple[str, ...]:
    """Return each layer's kind; all are recurrent where none is listed."""
    num_layers = facts.integer("num_hidden_layers")
    given = facts.value("layer_types", "layers_block_type")
    if given is None:
        return (_LINEAR[0],) * num_layers
    if not set(given) <= {*_LINEAR, *_FULL} or len(given) < num_layers:
        raise facts.unsupported("layer_types", "Mamba and attention are, one each.")
    return tuple(given[:num_layers])


def _rope(facts: Facts) -> tuple[Module, ...]:
    if facts.value("position_embedding_type") != "rope":
        return ()
    return rope_cache(facts, attention_shape(facts).head_size)


def _layer(facts: Facts, kind: str) -> LayerKind:
    hidden_size = facts.integer("hidden_size")
    rest = (
        norms(hidden_size),
        *_experts(facts),
        *granite_shared_mlp(facts, hidden_size),
    )
    if kind in _FULL:
        bias = facts.flag("attention_bias")
        shape = attention_shape(facts, qkv_bias=bias, output_bias=bias)
        return LayerKind((kv_of(shape),), (*attention(shape), *rest))
    state = mamba_state(facts, facts.integer("mamba_expand") * hidden_size)
    mixer = mamba2(
        state,
        hidden_size,
        name="mamba",
        has_conv_bias=facts.flag("mamba_conv_bias"),
        has_bias=facts.flag("mamba_proj_bias"),
    )
    return LayerKind((state,), (*mixer, *rest))


def mamba_state(facts: Facts, intermediate_size: int) -> Mamba2State:
    """Return the state of a Mamba 2 layer of this width."""
    num_heads = facts.integer("mamba_n_heads")
    return Mamba2State(
        intermediate_size=intermediate_size,
        n_groups=facts.integer("mamba_n_groups"),
        num_heads=num_heads,
        head_dim=_head_dim(facts, intermediate_size, num_heads),
        state_size=facts.integer("mamba_d_state"),
        conv_kernel=facts.integer("mamba_d_conv"),
    )


def _head_dim(facts: Facts, intermediate_size: int, num_heads: int) -> int:
    """Return the size of a Mamba head, an even share where it is auto."""
    if facts.config.get("mamba_d_head", "auto") in (None, "auto"):
        return intermediate_size // num_heads
    return facts.integer("mamba_d_head")


def _experts(facts: Facts) -> tuple[Module, ...]:
    if not facts.optional_integer("num_local_experts"):
        return ()
    return experts(experts_shape(GRANITE.as_usual(facts), GRANITE_EXPERTS))


READERS = {
    "GraniteMoeHybridForCausalLM": read_granite_hybrid,
}
