"""Mamba, Falcon Mamba and Mamba 2, of recurrent layers only."""

from __future__ import annotations

from math import ceil

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import norms
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
    norm: tuple[Module, ...] = (norms(hidden_size, count=1),)
    skeleton = Skeleton(
        hidden_size=hidden_size,
        final_norm=norm,
        placement=Placement.EVERYWHERE,
        is_head_quantizable=False,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
    )
    layer = LayerKind(kind.caches, (*norm, *kind.modules))
    body = Body.alike(layer, facts.integer("num_hidden_layers"))
    return assemble(
        facts,
        label,
        skeleton,
        body,
        layer_prefix="backbone.layers",
        supports_pp=supports_pp,
    )


READERS = {
    "MambaForCausalLM": read_mamba,
    "FalconMambaForCausalLM": read_mamba,
    "Mamba2ForCausalLM": read_mamba2,
}
