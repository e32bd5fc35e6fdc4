"""Qwen3-Next and Qwen3.5: gated delta nets with full attention every few layers."""

from __future__ import annotations

from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, Placement, assemble
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache
from planner.models.families.styles import Experts, experts_shape, unless_off
from planner.models.layers import (
    ColumnParallelLinear,
    LinearByLayout,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
    Sharded,
)
from planner.models.states import GatedDeltaNetState
from planner.values import frozen

_LINEAR, _FULL = "linear_attention", "full_attention"
_MOE = "qwen3_5_moe_text"
_NAME = "linear_attn"
_MARLIN_METHODS = ("auto_awq", "auto_gptq", "inc")


@frozen
class _Family:
    """In what Qwen3-Next and Qwen3.5 differ."""

    state: GatedDeltaNetState
    is_interleaved: bool
    sparse: frozenset[int]
    """Layers with experts."""
    is_head_quantizable: bool
    head_on: Placement
    tie_word_embeddings: bool


def read_qwen3_next(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Qwen3-Next; vLLM holds its LM head apart even where the config ties it.

    Source: vLLM 0.33.0 `models/qwen3_next.py` Qwen3NextForCausalLM.
    """
    family = _Family(
        state=gated_delta_net_state(facts),
        is_interleaved=True,
        sparse=_sparse_layers(facts),
        is_head_quantizable=False,
        head_on=Placement.EVERYWHERE,
        tie_word_embeddings=False,
    )
    return _build(facts, label, family)


def read_qwen3_5_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Read the language model of Qwen3.5 and its successors from its own config.

    Source: vLLM 0.33.0 `models/qwen3_5.py` Qwen3_5ForCausalLMBase;
    `models/config.py` Qwen3_5ForConditionalGenerationConfig (dtype of the state).
    """
    if facts.model_type in _OUTER and facts.mapping("text_config"):
        return read_qwen3_5_text(_text_of(facts), label)
    if facts.model_type not in (_MOE, "qwen3_5_text"):
        raise facts.unsupported("model_type", "qwen3_5_text and qwen3_5_moe_text are.")
    num_layers = facts.integer("num_hidden_layers")
    dtype = facts.value("mamba_ssm_dtype")
    family = _Family(
        state=replace(
            gated_delta_net_state(facts),
            recurrent_dtype=None if dtype is None else str(dtype),
        ),
        is_interleaved=False,
        sparse=frozenset(range(num_layers if facts.model_type == _MOE else 0)),
        is_head_quantizable=True,
        head_on=Placement.BY_STAGE,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
    )
    return _build(facts, label, family)


_OUTER = ("qwen3_5", "qwen3_5_moe")


def _text_of(facts: Facts) -> Facts:
    """Return the language model's config within that of images too."""
    inner = dict(facts.mapping("text_config"))
    own = facts.value("dtype", "torch_dtype")
    dtype = {} if own is None else {"dtype": own}
    return Facts({**inner, **dtype}, f"{facts.model_type}_text")


def _sparse_layers(facts: Facts) -> frozenset[int]:
    """Source: vLLM 0.33.0 `models/qwen3_next.py` Qwen3NextDecoderLayer."""
    if not facts.optional_integer("num_experts"):
        return frozenset()
    step = facts.integer("decoder_sparse_step")
    dense = set(facts.value("mlp_only_layers") or ())
    layers = range(facts.integer("num_hidden_layers"))
    return frozenset(i for i in layers if i not in dense and (i + 1) % step == 0)


def _build(facts: Facts, label: Label, family: _Family) -> ModelArchitecture:
    types = _layer_types(facts)
    layers = (
        _layer(facts, family, layer_type, is_sparse=index in family.sparse)
        for index, layer_type in enumerate(types)
    )
    rope = rope_cache(
        facts,
        head_size=gated_shape(facts).head_size,
        # Qwen3.5's positions never exceed the tokens, unless videos are pruned.
        mrope_positions_factor=4 if family.is_interleaved else 1,
    )
    frame = Frame(
        facts.integer("hidden_size"),
        rope,
        embeddings_on=Placement.EVERYWHERE,
        head_on=family.head_on,
        is_head_quantizable=family.is_head_quantizable,
        is_tied=family.tie_word_embeddings,
    )
    num_experts = facts.integer("num_experts") if family.sparse else 0
    return assemble(facts, label, frame, layers, num_experts=num_experts)


def _layer_types(facts: Facts) -> tuple[str, ...]:
    """Return each layer's kind, made up from the interval where it is not listed.

    Source: Transformers' Qwen3NextConfig and Qwen3_5TextConfig.
    """
    num_layers = facts.integer("num_hidden_layers")
    given = facts.value("layer_types")
    if given is None:
        interval = facts.integer("full_attention_interval", default=4)
        return tuple(
            _LINEAR if (layer + 1) % interval else _FULL for layer in range(num_layers)
        )
    if not set(given) <= {_LINEAR, _FULL} or len(given) < num_layers:
        raise facts.unsupported("layer_types", f"{_LINEAR} and {_FULL} are, one each.")
    return tuple(given[:num_layers])


def _layer(
    facts: Facts, family: _Family, layer_type: str, *, is_sparse: bool
) -> LayerKind:
    hidden_size = facts.integer("hidden_size")
    rest = (norms(hidden_size), *_layer_scales(facts), *_mlp(facts, is_sparse))
    if layer_type == _FULL:
        shape = gated_shape(facts)
        return LayerKind((kv_of(shape),), (*attention(shape), *rest))
    mixer = gated_delta_net(
        family.state, hidden_size, is_interleaved=family.is_interleaved
    )
    return LayerKind((family.state,), (*mixer, *rest))


def gated_shape(facts: Facts) -> AttentionShape:
    """Return attention whose query projection includes a gate of the same size.

    Source: vLLM 0.33.0 `models/qwen3_next.py` Qwen3NextAttention.
    """
    shape = attention_shape(facts, qkv_bias=facts.flag("qkv_bias"), has_qk_norm=True)
    return replace(shape, has_gate=facts.flag("attn_output_gate", default=True))


def _layer_scales(facts: Facts) -> tuple[Module, ...]:
    if not facts.flag("layer_scale"):
        return ()
    size = facts.integer("hidden_size")
    return (Replicated("layer_scale", Part.NORMS, ((size,), (size,))),)


def _mlp(facts: Facts, is_sparse: bool) -> tuple[Module, ...]:
    if is_sparse:
        return sparse_block(facts)
    return gated_mlp(*facts.integers("hidden_size", "intermediate_size"))


_EXPERTS = Experts(
    shared=lambda facts: facts.integer("shared_expert_intermediate_size"),
    shared_name="shared_expert",
    has_shared_gate=True,
    is_renormalized=unless_off("norm_topk_prob"),
)


def sparse_block(facts: Facts) -> tuple[Module, ...]:
    """Return routed experts beside a shared one with a gate of its own.

    Source: vLLM 0.33.0 `models/qwen3_next.py` Qwen3NextSparseMoeBlock.
    """
    return experts(experts_shape(facts, _EXPERTS))


@frozen
class GateProjection(LinearByLayout):
    """The projection to a delta net's two gates per value head.

    Where Marlin's kernel would find too few rows on a rank, each holds all of them.

    Source: vLLM 0.33.0 `layers/mamba/gdn/qwen_gdn_linear_attn.py` maybe_disable_tp.
    """

    input_size: int
    output_sizes: tuple[int, ...]
    part: Part = Part.MIXERS
    replicated_under: tuple[str, ...] = ()
    """Names of the quantisation methods under which every rank holds it in full,
    whether they quantise it or not."""
    is_replicated: bool = False

    def as_linear(
        self,
        layout: ParallelLayout,  # noqa: ARG002 - as others' may depend on it
    ) -> ColumnParallelLinear | ReplicatedLinear:
        """Return vLLM's layer."""
        kind = ReplicatedLinear if self.is_replicated else ColumnParallelLinear
        return kind(
            name=self.name,
            part=self.part,
            input_size=self.input_size,
            output_sizes=self.output_sizes,
            method=self.method,
        )


def gated_delta_net_state(facts: Facts) -> GatedDeltaNetState:
    """Read the usual fields of a gated delta net.

    Source of `recurrent_dtype`: vLLM 0.33.0 `models/config.py`
    Qwen3_5ForConditionalGenerationConfig.
    """
    return GatedDeltaNetState(
        num_k_heads=facts.integer("linear_num_key_heads"),
        num_v_heads=facts.integer("linear_num_value_heads"),
        head_k_dim=facts.integer("linear_key_head_dim"),
        head_v_dim=facts.integer("linear_value_head_dim"),
        conv_kernel=facts.integer("linear_conv_kernel_dim"),
    )


def gated_delta_net(
    state: GatedDeltaNetState, hidden_size: int, *, is_interleaved: bool
) -> tuple[Module, ...]:
    """Return the modules of a gated delta net layer.

    Args:
        state: its dimensions.
        hidden_size: of the model.
        is_interleaved: whether the checkpoint has q, k, v and z in one tensor, group by
            group (Qwen3-Next), or apart (Qwen3.5).

    Source: vLLM 0.33.0 `layers/mamba/gdn/qwen_gdn_linear_attn.py`
    QwenGatedDeltaNetAttention.
    """
    keys = state.num_k_heads * state.head_k_dim
    values = state.num_v_heads * state.head_v_dim
    qkvz, ba = (keys, keys, values, values), (state.num_v_heads,) * 2
    return (
        ColumnParallelLinear(
            f"{_NAME}.conv1d",
            Part.MIXERS,
            state.conv_kernel,
            (2 * keys + values,),
            is_quantizable=False,
        ),
        ColumnParallelLinear(
            f"{_NAME}.in_proj_qkvz",
            Part.MIXERS,
            hidden_size,
            (sum(qkvz),) if is_interleaved else qkvz,
            shards=() if is_interleaved else ("in_proj_qkv", "in_proj_z"),
        ),
        GateProjection(
            name=f"{_NAME}.in_proj_ba",
            input_size=hidden_size,
            output_sizes=(sum(ba),) if is_interleaved else ba,
            shards=() if is_interleaved else ("in_proj_b", "in_proj_a"),
            replicated_under=() if is_interleaved else _MARLIN_METHODS,
        ),
        Sharded(f"{_NAME}.dt_bias", Part.MIXERS, ((state.num_v_heads,),)),
        Sharded(
            f"{_NAME}.A_log", Part.MIXERS, ((state.num_v_heads,),), dtype="float32"
        ),
        Replicated(f"{_NAME}.norm", Part.MIXERS, ((state.head_v_dim,),)),
        RowParallelLinear(f"{_NAME}.out_proj", Part.MIXERS, values, hidden_size),
    )


READERS = {
    "Qwen3NextForCausalLM": read_qwen3_next,
    "Qwen3_5ForCausalLM": read_qwen3_5_text,
    "Qwen3_5MoeForCausalLM": read_qwen3_5_text,
}
