"""Beam and Flint: experts, windows, and gates or sinks of their own.

Source: vLLM 0.33.0 `models/beam/nvidia/model.py`; its BeamConfig;
`models/flint/model.py`; its FlintConfig.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Placement
from planner.models.families.decoder import AttentionShape, attention
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.rope import RotaryCache, rope_cache
from planner.models.families.styles import Experts, Style
from planner.models.families.windows import SLIDING
from planner.models.layers import (
    Module,
    Part,
    QKVParallelLinear,
    Sharded,
)

_BEAM_DEFAULTS = own_defaults("BeamConfig")


_FLINT_DEFAULTS = own_defaults("FlintConfig")


def _beam_attention(_facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/beam/nvidia/attention.py` BeamAttention."""
    normed = replace(shape, qk_norm_sizes=(shape.head_size, shape.head_size))
    _, output, scales, norm = attention(normed)
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
        output,
        norm,
        Sharded("self_attn.gate_bias", Part.ATTENTION, ((shape.num_heads,),)),
        scales,
    )


def _untied(facts: Facts, shape: AttentionShape) -> AttentionShape:
    """Refuse a tied head, which vLLM does not build either."""
    if facts.flag("tie_word_embeddings"):
        raise facts.unsupported("tie_word_embeddings", "vLLM refuses a tied head.")
    return shape


def _beam_windows(facts: Facts, num_layers: int) -> list[int | None]:
    types = facts.value("layer_types") or [SLIDING] * num_layers
    window = facts.integer("sliding_window")
    return [window if kind == SLIDING else None for kind in types]


def _beam_sparse(facts: Facts, layer: int) -> bool:
    types = facts.value("mlp_layer_types")
    return not types or types[layer] != "dense"


def _beam_rope(facts: Facts, shape: AttentionShape) -> tuple[RotaryCache, ...]:
    if SLIDING not in (facts.value("layer_types") or [SLIDING]):
        return ()
    return _float32_table(_rotated(facts), shape)


def _rotated(facts: Facts) -> Facts:
    """Return the config with the one set of rotary parameters that some layers have."""
    given = facts.mapping("rope_parameters")
    if not given or not set(given) <= {SLIDING, "full_attention"}:
        return facts
    (own,) = (value for value in given.values() if value is not None)
    return facts.having(rope_parameters=own)


def _float32_table(facts: Facts, shape: AttentionShape) -> tuple[RotaryCache, ...]:
    """Return the table of cosines, float32 whatever the model's dtype."""
    tables = rope_cache(facts, shape.head_size)
    return tuple(replace(table, dtype="float32") for table in tables)


def _flint_windows(facts: Facts, num_layers: int) -> list[int | None]:
    is_used = facts.flag("use_sliding_window", default=True)
    window = facts.optional_integer("sliding_window") if is_used else None
    types = facts.value("layer_types") or [""] * num_layers
    return [window if kind == SLIDING else None for kind in types]


def _flint_rope(facts: Facts, shape: AttentionShape) -> tuple[RotaryCache, ...]:
    unrotated = set(facts.value("no_rope_layer_indices") or ())
    if len(unrotated) >= facts.integer("num_hidden_layers"):
        return ()
    return _float32_table(facts, shape)


def _softmax_offsets(_facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    offsets = Sharded(
        "self_attn.softmax_offset",
        Part.ATTENTION,
        ((shape.num_heads,),),
        dtype="float32",
    )
    return (offsets,)


def _with_sinks(_facts: Facts, cache: AttentionLayer) -> AttentionLayer:
    return replace(cache, has_sinks=True, needs_flashinfer=True)


ROWS = {
    "BeamForCausalLM": Style(
        defaults=_BEAM_DEFAULTS,
        heads=_untied,
        attention=_beam_attention,
        norm_count=4,
        windows=_beam_windows,
        rope=_beam_rope,
        is_sparse=_beam_sparse,
        experts=Experts(
            router_dtype="float32",
            has_correction_bias=True,
            is_renormalized="norm_topk_prob",
        ),
    ),
    # Its plain MLPs are listed.
    "FlintForCausalLM": Style(
        defaults=_FLINT_DEFAULTS,
        fields={"tie_word_embeddings": False},
        qkv_bias="attention_bias",
        qk_norm=True,
        own=_softmax_offsets,
        cache=_with_sinks,
        windows=_flint_windows,
        rope=_flint_rope,
        is_sparse=lambda facts, layer: (
            layer not in (facts.value("mlp_only_layers") or ())
        ),
        experts=Experts(
            shared=lambda facts: facts.integer("shared_expert_intermediate_size"),
            shared_name="shared_expert",
            is_renormalized="norm_topk_prob",
        ),
        placement=Placement.EVERYWHERE,
    ),
}
"""By architecture."""
