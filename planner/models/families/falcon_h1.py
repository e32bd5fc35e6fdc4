"""Falcon-H1: Mamba 2 beside attention in every layer."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Body, Label, Skeleton, assemble
from planner.models.families.decoder import (
    attention_layer,
    attention_modules,
    gated_mlp,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.granitemoehybrid import mamba_state
from planner.models.families.mamba_mixers import MixerProjection, mamba2
from planner.models.families.rope import rope_cache
from planner.models.layers import Module, Part
from planner.models.states import Mamba2State


def read_h1(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Falcon-H1; each layer keeps keys, values and a state.

    Source: vLLM 0.33.0 `models/falcon_h1.py` FalconH1ForCausalLM.
    """
    hidden_size = facts.integer("hidden_size")
    attention, state = _attention(facts), _state(facts)
    kind = LayerKind(
        (attention, state),
        (
            *attention_modules(hidden_size, attention, prefix=""),
            *_mamba(facts, state),
            *gated_mlp(
                hidden_size, facts.integer("intermediate_size"), name="feed_forward"
            ),
            norms(hidden_size),
        ),
    )
    skeleton = Skeleton(
        hidden_size=hidden_size,
        is_head_quantizable=False,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        every_stage=rope_cache(
            facts,
            attention.head_size,
            dim=facts.optional_integer("attn_rotary_emb") or attention.head_size,
        ),
    )
    body = Body.alike(kind, facts.integer("num_hidden_layers"))
    return assemble(facts, label, skeleton, body)


def _state(facts: Facts) -> Mamba2State:
    size = facts.optional_integer("mamba_d_ssm")
    if size is None:
        size = facts.integer("mamba_expand") * facts.integer("hidden_size")
    return mamba_state(facts, size)


def _mamba(facts: Facts, state: Mamba2State) -> tuple[Module, ...]:
    mixer = mamba2(
        state,
        facts.integer("hidden_size"),
        name="mamba.mamba",
        has_conv_bias=facts.flag("mamba_conv_bias"),
        has_bias=facts.flag("mamba_proj_bias"),
        has_norm=facts.flag("mamba_rms_norm"),
    )
    multipliers = MixerProjection(
        name="mamba.mup_vector",
        part=Part.BUFFERS,
        input_size=1,
        state=state,
        has_gate_and_heads=True,
        is_quantizable=False,
    )
    return (*mixer, multipliers)


def _attention(facts: Facts) -> AttentionLayer:
    layer = attention_layer(facts)
    given = facts.optional_integer("head_dim")
    return replace(layer, head_size=given) if given else layer


READERS = {
    "FalconH1ForCausalLM": read_h1,
}
