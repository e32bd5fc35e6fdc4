"""Olmo Hybrid: gated delta nets with full attention every few layers."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, Placement, assemble
from planner.models.families.decoder import (
    attention,
    even_shape,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
    Sharded,
)
from planner.models.states import GatedDeltaNetState

_LINEAR, _FULL = "linear_attention", "full_attention"


def read_olmo_hybrid(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Olmo Hybrid; embeddings, norm and head are on every stage.

    Source: vLLM 0.33.0 `models/olmo_hybrid.py` OlmoHybridForCausalLM; Transformers'
    OlmoHybridConfig.
    """
    size, layers = facts.integer("hidden_size"), _layer_types(facts)
    frame = Frame(size, _rope(facts), placement=Placement.EVERYWHERE)
    return assemble(facts, label, frame, (_layer(facts, kind) for kind in layers))


def _layer_types(facts: Facts) -> tuple[str, ...]:
    num_layers = facts.integer("num_hidden_layers")
    given = facts.value("layer_types")
    if given is None:
        types = [_FULL if i % 4 == 3 else _LINEAR for i in range(num_layers)]  # noqa: PLR2004 - the config class's own interval
        return tuple(types if _FULL in types else [*types[:-1], _FULL])
    if not set(given) <= {_LINEAR, _FULL} or len(given) < num_layers:
        raise facts.unsupported("layer_types", f"{_LINEAR} and {_FULL} are, one each.")
    return tuple(given[:num_layers])


def _rope(facts: Facts) -> tuple[Module, ...]:
    """Return the rotary table, none where rope_parameters say rope_theta: null."""
    if facts.mapping("rope_parameters").get("rope_theta", "default") is None:
        return ()
    return rope_cache(facts, even_shape(facts).head_size)


def _layer(facts: Facts, kind: str) -> LayerKind:
    hidden_size = facts.integer("hidden_size")
    rest = (
        norms(hidden_size),
        *gated_mlp(hidden_size, facts.integer("intermediate_size")),
    )
    if kind == _FULL:
        plain = even_shape(facts)
        # Norms over all heads, which every rank holds in full.
        sizes = (plain.num_kv_heads * plain.head_size, hidden_size)
        shape = replace(plain, qk_norm_sizes=sizes)
        return LayerKind((kv_of(shape),), (*attention(shape), *rest))
    state = _state(facts)
    return LayerKind((state,), (*_mixer(facts, state), *rest))


def _state(facts: Facts) -> GatedDeltaNetState:
    """Read the delta net, whose sizes follow from the attention's where not given."""
    heads = facts.integer("num_attention_heads")
    num_k_heads = _given(facts, "linear_num_key_heads") or heads
    head_k_dim = _given(facts, "linear_key_head_dim") or int(
        0.75 * facts.integer("hidden_size") / num_k_heads
    )
    return GatedDeltaNetState(
        num_k_heads=num_k_heads,
        num_v_heads=_given(facts, "linear_num_value_heads") or heads,
        head_k_dim=head_k_dim,
        head_v_dim=_given(facts, "linear_value_head_dim") or 2 * head_k_dim,
        conv_kernel=facts.integer("linear_conv_kernel_dim"),
        exports_checkpoints=False,
    )


def _given(facts: Facts, name: str) -> int | None:
    """Return a size that config.json itself names, None where the class derives it."""
    return facts.integer(name) if facts.config.get(name) is not None else None


def _mixer(facts: Facts, state: GatedDeltaNetState) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `layers/mamba/gdn/olmo_gdn_linear_attn.py`."""
    hidden_size, heads = facts.integer("hidden_size"), state.num_v_heads
    keys = state.num_k_heads * state.head_k_dim
    values = heads * state.head_v_dim

    def column(
        name: str, outputs: tuple[int, ...], shards: tuple[str, ...] = ()
    ) -> ColumnParallelLinear:
        return ColumnParallelLinear(
            f"linear_attn.{name}", Part.MIXERS, hidden_size, outputs, shards=shards
        )

    return (
        column(
            "in_proj_qkvg",
            (keys, keys, values, values),
            ("q_proj", "k_proj", "v_proj", "g_proj"),
        ),
        column("b_proj", (heads,)),
        column("a_proj", (heads,)),
        ColumnParallelLinear(
            "linear_attn.conv1d",
            Part.MIXERS,
            state.conv_kernel,
            (2 * keys + values,),
            is_quantizable=False,
        ),
        Sharded("linear_attn.dt_bias_and_A_log", Part.MIXERS, ((heads,), (heads,))),
        # The norm keeps the dtype of the published weights.
        Replicated(
            "linear_attn.o_norm",
            Part.MIXERS,
            ((state.head_v_dim,),),
            dtype=facts.value("dtype", "torch_dtype"),
        ),
        RowParallelLinear("linear_attn.o_proj", Part.MIXERS, values, hidden_size),
    )


READERS = {"OlmoHybridForCausalLM": read_olmo_hybrid}
