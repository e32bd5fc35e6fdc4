"""Mamba 2 beside attention: Granite 4, Falcon-H1, Zamba 2."""

from __future__ import annotations

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Frame, Label, Placement, Reader, assemble
from planner.models.families.decoder import (
    attention,
    attention_scales,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.mamba_mixers import MixerProjection, mamba2
from planner.models.families.mixtures import (
    GRANITE,
    GRANITE_EXPERTS,
    granite_shared_mlp,
)
from planner.models.families.rope import rope_cache
from planner.models.families.styles import experts_shape
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

# Granite 4: Mamba 2 and attention by layer, with experts or without.
_LINEAR, _FULL = ("linear_attention", "mamba"), ("full_attention", "attention")


def read_granite_hybrid(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Granite 4; embeddings, norm and head are on every stage.

    Source: vLLM 0.33.0 `models/granitemoehybrid.py` GraniteMoeHybridForCausalLM.
    """
    hidden_size = facts.integer("hidden_size")
    layers = [_granite_layer(facts, kind) for kind in _granite_layer_types(facts)]
    frame = Frame(hidden_size, _granite_rope(facts), placement=Placement.EVERYWHERE)
    return assemble(facts, label, frame, layers)


def _granite_layer_types(facts: Facts) -> tuple[str, ...]:
    """Return each layer's kind; all are recurrent where none is listed."""
    num_layers = facts.integer("num_hidden_layers")
    given = facts.value("layer_types", "layers_block_type")
    if given is None:
        return (_LINEAR[0],) * num_layers
    if not set(given) <= {*_LINEAR, *_FULL} or len(given) < num_layers:
        raise facts.unsupported("layer_types", "Mamba and attention are, one each.")
    return tuple(given[:num_layers])


def _granite_rope(facts: Facts) -> tuple[Module, ...]:
    if facts.value("position_embedding_type") != "rope":
        return ()
    return rope_cache(facts, attention_shape(facts).head_size)


def _granite_layer(facts: Facts, kind: str) -> LayerKind:
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


# Falcon-H1: Mamba 2 beside attention in every layer.
def read_h1(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Falcon-H1; each layer keeps keys, values and a state.

    Source: vLLM 0.33.0 `models/falcon_h1.py` FalconH1ForCausalLM.
    """
    hidden_size = facts.integer("hidden_size")
    shape, state = attention_shape(facts), _falcon_state(facts)
    kind = LayerKind(
        (kv_of(shape), state),
        (
            *attention(shape, name=""),
            *_mamba(facts, state),
            *gated_mlp(
                hidden_size, facts.integer("intermediate_size"), name="feed_forward"
            ),
            norms(hidden_size),
        ),
    )
    dim = facts.optional_integer("attn_rotary_emb") or shape.head_size
    rope = rope_cache(facts, shape.head_size, dim=dim)
    frame = Frame(hidden_size, rope, is_head_quantizable=False)
    return assemble(facts, label, frame, [kind] * facts.integer("num_hidden_layers"))


def _falcon_state(facts: Facts) -> Mamba2State:
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


# Zamba 2: Mamba 2 throughout, and a few transformer blocks that layers share.
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
    frame = Frame(
        facts.integer("hidden_size"),
        (*_zamba_rope(facts), *_shared_blocks(facts)),
        placement=Placement.EVERYWHERE,
        is_tied=True,
        is_head_quantizable=False,
    )
    layers = [_zamba_layer(facts, kind) for kind in _zamba_layer_types(facts)]
    return assemble(facts, label, frame, layers, supports_pp=False)


def _zamba_layer_types(facts: Facts) -> tuple[str, ...]:
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


def _zamba_rope(facts: Facts) -> tuple[Module, ...]:
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


def _zamba_layer(facts: Facts, kind: str) -> LayerKind:
    hidden_size, state = facts.integer("hidden_size"), _zamba_state(facts)
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


def _zamba_state(facts: Facts) -> Mamba2State:
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


READERS: dict[str, Reader] = {
    "GraniteMoeHybridForCausalLM": read_granite_hybrid,
    "FalconH1ForCausalLM": read_h1,
    "Zamba2ForCausalLM": read_zamba2,
}
