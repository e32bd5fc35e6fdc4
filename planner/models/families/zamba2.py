"""Zamba 2: Mamba 2 throughout, and a few transformer blocks that layers share."""

from __future__ import annotations

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import attention_scales, gated_mlp, norms
from planner.models.families.facts import Facts
from planner.models.families.mamba_mixers import mamba2
from planner.models.families.rope import rope_cache
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)
from planner.models.states import Mamba2State

_MAMBA, _HYBRID = ("mamba", "linear_attention"), "hybrid"
_LONG_CONTEXT = 16384


def read_zamba2(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Zamba 2, which vLLM does not run in stages and whose head is always tied.

    Source: vLLM 0.33.0 `models/zamba2.py` Zamba2ForCausalLM; Transformers'
    Zamba2Config.
    """
    if facts.flag("use_long_context"):
        config = {**facts.config, "max_position_embeddings": _LONG_CONTEXT}
        facts = Facts(config, facts.model_type)
    hidden_size = facts.integer("hidden_size")
    skeleton = Skeleton(
        hidden_size=hidden_size,
        placement=Placement.EVERYWHERE,
        is_head_quantizable=False,
        tie_word_embeddings=True,
        every_stage=(*_rope(facts), *_shared_blocks(facts)),
    )
    body = Body.of(_layer(facts, kind) for kind in _layer_types(facts))
    return assemble(facts, label, skeleton, body, supports_pp=False)


def _layer_types(facts: Facts) -> tuple[str, ...]:
    given = facts.value("layers_block_type", "layer_types")
    if given is None:
        every_six = (*(_MAMBA[0],) * 5, _HYBRID)
        given = (
            _MAMBA[0],
            *every_six * 7,
            *(*(_MAMBA[0],) * 4, _HYBRID),
            *(*(_MAMBA[0],) * 3, _HYBRID),
            *(_MAMBA[0],) * 2,
        )
    if not set(given) <= {*_MAMBA, _HYBRID}:
        raise facts.unsupported("layers_block_type", "mamba and hybrid are.")
    return tuple(given)


def _attention_layer(facts: Facts) -> AttentionLayer:
    """Each hybrid layer keeps its own keys and values of heads twice as wide."""
    num_heads = facts.integer("num_attention_heads")
    return AttentionLayer(
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_size=2 * facts.integer("hidden_size") // num_heads,
    )


def _intermediate_size(facts: Facts) -> int:
    given = facts.config.get("intermediate_size")
    return (
        facts.integer("intermediate_size")
        if given
        else (4 * facts.integer("hidden_size"))
    )


def _rope(facts: Facts) -> tuple[Module, ...]:
    if not facts.flag("use_mem_rope"):
        return ()
    return rope_cache(facts, _attention_layer(facts).head_size)


def _shared_blocks(facts: Facts) -> tuple[Module, ...]:
    """Return attention and MLP of each block, which many layers use in turns."""
    hidden_size, layer = facts.integer("hidden_size"), _attention_layer(facts)
    block: tuple[Module, ...] = (
        QKVParallelLinear(
            name="shared_transformer.self_attn.qkv_proj",
            input_size=2 * hidden_size,
            num_heads=layer.num_heads,
            num_kv_heads=layer.num_kv_heads,
            head_size=layer.head_size,
        ),
        RowParallelLinear(
            "shared_transformer.self_attn.o_proj",
            Part.ATTENTION,
            2 * hidden_size,
            hidden_size,
        ),
        *gated_mlp(
            hidden_size,
            _intermediate_size(facts),
            bias=facts.flag("add_bias_linear"),
            name="shared_transformer.feed_forward",
        ),
        Replicated(
            "shared_transformer.layernorm",
            Part.NORMS,
            ((2 * hidden_size,), (hidden_size,)),
        ),
    )
    return block * facts.integer("num_mem_blocks")


def _layer(facts: Facts, kind: str) -> LayerKind:
    hidden_size, state = facts.integer("hidden_size"), _state(facts)
    modules = (
        norms(hidden_size, count=1),
        *mamba2(
            state,
            hidden_size,
            name="mamba",
            has_conv_bias=facts.flag("use_conv_bias"),
            has_bias=facts.flag("add_bias_linear"),
        ),
    )
    if kind in _MAMBA:
        return LayerKind((state,), modules)
    return LayerKind(
        (_attention_layer(facts), state), (*modules, *_hybrid_modules(facts))
    )


def _state(facts: Facts) -> Mamba2State:
    size = facts.integer("mamba_expand") * facts.integer("hidden_size")
    num_heads = facts.integer("n_mamba_heads")
    return Mamba2State(
        intermediate_size=size,
        n_groups=facts.integer("mamba_ngroups"),
        num_heads=num_heads,
        head_dim=size // num_heads,
        state_size=facts.integer("mamba_d_state"),
        conv_kernel=facts.integer("mamba_d_conv"),
    )


def _hybrid_modules(facts: Facts) -> tuple[Module, ...]:
    """Return what a hybrid layer has of its own: a projection and adapters."""
    hidden_size, wide = facts.integer("hidden_size"), 2 * facts.integer("hidden_size")
    linear = ReplicatedLinear("linear", Part.ATTENTION, hidden_size, (hidden_size,))
    size = _intermediate_size(facts)
    adapters = _adapter(
        facts, "gate_up_proj_adapter", hidden_size, (size, size), Part.MLP
    )
    if facts.flag("use_shared_attention_adapter"):
        for name in ("linear_q_adapter", "linear_k_adapter", "linear_v_adapter"):
            adapters += _adapter(facts, name, wide, (wide,), Part.ATTENTION)
    return (linear, attention_scales(), *adapters)


def _adapter(
    facts: Facts, name: str, inputs: int, outputs: tuple[int, ...], part: Part
) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/zamba2.py` Zamba2LoRA."""
    rank = facts.integer("adapter_rank")
    return tuple(
        ColumnParallelLinear(f"{name}.{suffix}", part, size, sizes)
        for suffix, size, sizes in (("A", inputs, (rank,)), ("B", rank, outputs))
    )


READERS = {"Zamba2ForCausalLM": read_zamba2}
