"""Decoders that a reader describes layer by layer."""

from __future__ import annotations

from collections.abc import Iterable

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import norms
from planner.models.families.facts import Facts
from planner.models.families.rope import (
    RotaryCache,
    for_layer_type,
    rope_cache,
    rope_dict,
    rotary_dim,
)
from planner.models.layers import Module, Part, Sharded
from planner.values import frozen

FULL, SLIDING = "full_attention", "sliding_attention"


@frozen(kw_only=False)
class Frame:
    """What surrounds the layers."""

    hidden_size: int
    rope: tuple[Module, ...] = ()
    placement: Placement = Placement.BY_STAGE
    embeddings_on: Placement | None = None
    """Where it differs from the placement of the rest."""
    head_on: Placement | None = None
    is_tied: bool | None = None
    """None: as tie_word_embeddings says."""
    norm_bias: bool = False
    has_final_norm: bool = True
    is_head_quantizable: bool = True
    extra_final: tuple[Module, ...] = ()
    """Beside the final norm."""


def decoder(
    facts: Facts,
    label: Label,
    frame: Frame,
    layers: Iterable[LayerKind],
    **overrides: object,
) -> ModelArchitecture:
    """Return a decoder of these layers; `overrides` replace what the config says."""
    tied = frame.is_tied
    final = norms(frame.hidden_size, count=1, bias=frame.norm_bias)
    skeleton = Skeleton(
        hidden_size=frame.hidden_size,
        final_norm=(*((final,) if frame.has_final_norm else ()), *frame.extra_final),
        placement=frame.placement,
        embeddings_on=frame.embeddings_on,
        head_on=frame.head_on,
        is_head_quantizable=frame.is_head_quantizable,
        tie_word_embeddings=facts.flag("tie_word_embeddings") if tied is None else tied,
        every_stage=frame.rope,
    )
    return assemble(
        facts,
        label,
        skeleton,
        Body.of(layers),
        **{"num_experts": declared_experts(facts), **overrides},
    )


def declared_experts(facts: Facts) -> int:
    """Return the experts that vLLM's checks see.

    Source: vLLM 0.33.0 `transformers_utils/config.py` CONFIG_FIELD_ALIASES.
    """
    names = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
    return facts.optional_integer(*names) or 0


def typed_ropes(
    facts: Facts,
    types: Iterable[str],
    *,
    head_size: int,
    max_position: int,
    local: Facts | None = None,
) -> tuple[RotaryCache, ...]:
    """Return one rotary table for each set of parameters among these kinds of layer.

    Args:
        facts: of the config, whose rope_parameters may differ by kind of layer.
        types: the kinds that occur.
        head_size: of the attention.
        max_position: rows before any scaling.
        local: what holds for windows where the config does not keep it by kind.

    Source: vLLM 0.33.0 `layers/rotary_embedding/__init__.py` get_rope, which shares
    tables that are alike.
    """
    tables: dict[str, RotaryCache] = {}
    for kind in dict.fromkeys(types):
        own = for_layer_type(facts, kind)
        if own is facts and local is not None and kind == SLIDING:
            own = local
        key = f"{sorted(rope_dict(own).items())}{rotary_dim(own, head_size)}"
        if key not in tables:
            (table,) = rope_cache(own, head_size, max_position=max_position)
            tables[key] = table
    return tuple(tables.values())


def sinks(num_heads: int) -> Sharded:
    """Return a learned sink for each head."""
    return Sharded("self_attn.sinks", Part.ATTENTION, ((num_heads,),))


def is_sliding(facts: Facts) -> list[bool]:
    """Return which layers have a window; without layer_types none has."""
    types = facts.value("layer_types")
    num_layers = facts.integer("num_hidden_layers")
    if not types:
        return [False] * num_layers
    if not set(types) <= {FULL, SLIDING}:
        raise facts.unsupported("layer_types", "full and sliding attention are.")
    return [kind == SLIDING for kind in types[:num_layers]]
