"""Mamba, Falcon Mamba and Mamba 2, of recurrent layers only, and Jamba."""

from __future__ import annotations

from math import ceil

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, Placement, Reader, assemble
from planner.models.families.decoder import (
    ExpertsShape,
    attention,
    even_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.mamba_mixers import mamba1, mamba2
from planner.models.layers import Module
from planner.models.states import Mamba1State, Mamba2State


def read_mamba(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Mamba and Falcon Mamba.

    Source: vLLM 0.33.0 `models/mamba.py` MambaForCausalLM.
    """
    hidden_size = facts.integer("hidden_size")
    state = Mamba1State(
        intermediate_size=int(facts.integer("expand") * hidden_size),
        state_size=facts.integer("state_size"),
        conv_kernel=facts.integer("conv_kernel"),
    )
    rank = time_step_rank(facts, "time_step_rank")
    # Falcon's norms on time step, B and C are all ones, but are held on the GPU.
    has_norms = facts.model_type == "falcon_mamba"
    mixer = mamba1(
        state,
        hidden_size,
        name="mixer",
        time_step_rank=rank,
        has_conv_bias=facts.flag("use_conv_bias"),
        has_bias=facts.flag("use_bias"),
        norm_sizes=(rank, state.state_size, state.state_size) if has_norms else (),
    )
    return _build(facts, label, LayerKind((state,), mixer))


def time_step_rank(facts: Facts, name: str) -> int:
    """Return the rank of a time step's projection, a sixteenth where it is auto."""
    if facts.value(name) in (None, "auto"):
        return ceil(facts.integer("hidden_size") / 16)
    return facts.integer(name)


def read_mamba2(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Mamba 2, which vLLM does not run in stages.

    Source: vLLM 0.33.0 `models/mamba2.py` Mamba2ForCausalLM.
    """
    hidden_size = facts.integer("hidden_size")
    state = Mamba2State(
        intermediate_size=facts.integer("expand") * hidden_size,
        n_groups=facts.integer("n_groups"),
        num_heads=facts.integer("num_heads"),
        head_dim=facts.integer("head_dim"),
        state_size=facts.integer("state_size"),
        conv_kernel=facts.integer("conv_kernel"),
    )
    mixer = mamba2(
        state,
        hidden_size,
        name="mixer",
        has_conv_bias=facts.flag("use_conv_bias"),
        has_bias=facts.flag("use_bias"),
    )
    kind = LayerKind((state,), mixer)
    return _build(facts, label, kind, supports_pp=False)


def _build(
    facts: Facts, label: Label, kind: LayerKind, *, supports_pp: bool = True
) -> ModelArchitecture:
    hidden_size = facts.integer("hidden_size")
    frame = Frame(
        hidden_size, placement=Placement.EVERYWHERE, is_head_quantizable=False
    )
    layer = LayerKind(kind.caches, (norms(hidden_size, count=1), *kind.modules))
    return assemble(
        facts,
        label,
        frame,
        [layer] * facts.integer("num_hidden_layers"),
        layer_prefix="backbone.layers",
        supports_pp=supports_pp,
    )


# Jamba: Mamba with attention in some layers, experts in others.
def read_jamba(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Jamba; embeddings, norm and head are on every stage, and never tied.

    Source: vLLM 0.33.0 `models/jamba.py` JambaForCausalLM; Transformers' JambaConfig.
    """
    num_layers = facts.integer("num_hidden_layers")
    layers = [_layer(facts, index) for index in range(num_layers)]
    frame = Frame(
        facts.integer("hidden_size"),
        placement=Placement.EVERYWHERE,
        is_tied=False,
        is_head_quantizable=False,
    )
    return assemble(facts, label, frame, layers)


def _layer(facts: Facts, index: int) -> LayerKind:
    period = facts.integer("attn_layer_period")
    is_attention = index % period == facts.integer("attn_layer_offset")
    rest = (norms(facts.integer("hidden_size")), *_feed_forward(facts, index))
    if is_attention:
        shape = even_shape(facts)
        return LayerKind((kv_of(shape),), (*attention(shape, name=""), *rest))
    state = _state(facts)
    return LayerKind((state,), (*_mamba(facts, state), *rest))


def _feed_forward(facts: Facts, index: int) -> tuple[Module, ...]:
    hidden_size = facts.integer("hidden_size")
    intermediate_size = facts.integer("intermediate_size")
    period = facts.integer("expert_layer_period")
    num_experts = facts.integer("num_experts", "num_local_experts")
    if num_experts <= 1 or index % period != facts.integer("expert_layer_offset"):
        return gated_mlp(hidden_size, intermediate_size, name="feed_forward")
    shape = ExpertsShape(
        hidden_size=hidden_size,
        num_experts=num_experts,
        top_k=facts.integer("num_experts_per_tok"),
        intermediate_size=intermediate_size,
        is_renormalized=False,
        name="feed_forward",
        router_name="router",
    )
    return experts(shape)


def _state(facts: Facts) -> Mamba1State:
    return Mamba1State(
        intermediate_size=facts.integer("mamba_expand") * facts.integer("hidden_size"),
        state_size=facts.integer("mamba_d_state"),
        conv_kernel=facts.integer("mamba_d_conv"),
    )


def _mamba(facts: Facts, state: Mamba1State) -> tuple[Module, ...]:
    hidden_size = facts.integer("hidden_size")
    rank = time_step_rank(facts, "mamba_dt_rank")
    return mamba1(
        state,
        hidden_size,
        name="mamba",
        time_step_rank=rank,
        has_conv_bias=facts.flag("mamba_conv_bias"),
        has_bias=facts.flag("mamba_proj_bias"),
        norm_sizes=(rank, state.state_size, state.state_size),
    )


READERS: dict[str, Reader] = {
    "MambaForCausalLM": read_mamba,
    "FalconMambaForCausalLM": read_mamba,
    "Mamba2ForCausalLM": read_mamba2,
    "JambaForCausalLM": read_jamba,
}
