"""Gemma 4: two kinds of layers with heads of their own sizes, images and sounds."""

from __future__ import annotations

from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.engine.releases.shared import HAS_QUERY_PROJECTIONS
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.experts import FusedMoE
from planner.models.families.assembly import Frame, Label, Placement, assemble
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    gated_mlp,
    kv_of,
    norms,
    query_attention,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import for_layer_type, rope_dict
from planner.models.families.windows import FULL, SLIDING
from planner.models.layers import (
    ColumnParallelLinear,
    LinearByLayout,
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    ReplicatedLinear,
    VocabParallelEmbedding,
)
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen

_GLOBAL_HEAD_DIM = 512
_FULL_EVERY = 6


def read_gemma4_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the language model of Gemma 4.

    Source: vLLM 0.33.0 `models/gemma4.py` Gemma4ForCausalLM; Transformers'
    Gemma4TextConfig.
    """
    facts = _by_kind(facts)
    if facts.value("use_bidirectional_attention") == "all":
        raise facts.unsupported("use_bidirectional_attention", "images only are.")
    types = _layer_types(facts)
    shared_from = len(types) - facts.integer("num_kv_shared_layers", default=0)
    layers = (
        _layer(facts, kind, is_shared=index >= shared_from > 0)
        for index, kind in enumerate(types)
    )
    shapes = [_shape(facts, kind) for kind in types]
    frame = Frame(
        facts.integer("hidden_size"),
        placement=Placement.EVERYWHERE,
        extra_embeddings=_layer_embeddings(facts, len(types)),
        every_stage=(
            Replicated("model.normalizer", Part.BUFFERS, ((),)),
            *(_rope_cache(facts, kind) for kind in sorted(set(types))),
        ),
    )
    return assemble(
        facts,
        label,
        frame,
        layers,
        # vLLM takes the largest where layers differ (`config/model_arch.py`).
        head_size=max(shape.head_size for shape in shapes),
        num_kv_heads=max(shape.num_kv_heads for shape in shapes),
        kv_sources=_kv_sources(types, shared_from),
        mixes_head_sizes=len({shape.head_size for shape in shapes}) > 1,
    )


def _layer_types(facts: Facts) -> tuple[str, ...]:
    """Return each layer's kind; the last one always has full attention."""
    count = facts.integer("num_hidden_layers")
    given = facts.value("layer_types") or [
        SLIDING if (layer + 1) % _FULL_EVERY else FULL for layer in range(count)
    ]
    if len(given) != count or not set(given) <= {FULL, SLIDING}:
        raise facts.unsupported("layer_types", "full and sliding attention are.")
    return (*given[:-1], FULL)


def _by_kind(facts: Facts) -> Facts:
    """Return the config with what it says of single layers said of their kind.

    Raises:
        UnknownArchitecture: unless all layers of full attention differ alike.

    Source: Transformers' Gemma4TextConfig (per_layer_config).
    """
    single = facts.value("per_layer_config")
    if not single:
        return facts
    types = _layer_types(facts)
    own = {index: single.get(str(index)) or {} for index in range(len(types))}
    own |= {int(index): dict(changes) for index, changes in single.items()}
    full = [own[i] for i, kind in enumerate(types) if kind == FULL]
    sliding = [own[i] for i, kind in enumerate(types) if kind != FULL]
    is_known = set(full[0]) <= {"head_dim", "num_key_value_heads"}
    if any(sliding) or full.count(full[0]) != len(full) or not is_known:
        raise facts.unsupported("per_layer_config", "sizes by kind of layer are.")
    kv_heads = full[0].get("num_key_value_heads")
    changes = {
        "per_layer_config": None,
        "global_head_dim": full[0].get("head_dim", facts.value("head_dim")),
        "num_global_key_value_heads": kv_heads,
        "attention_k_eq_v": kv_heads is not None,
    }
    return facts.having(**changes)


def _kv_sources(types: tuple[str, ...], shared_from: int) -> tuple[int, ...]:
    """Return for each layer the last one of its kind that keeps a cache.

    Source: vLLM 0.33.0 `models/gemma4.py` Gemma4Attention.
    """
    last = {kind: index for index, kind in enumerate(types[:shared_from])}
    return tuple(
        last[kind] if index >= shared_from > 0 else index
        for index, kind in enumerate(types)
    )


def _shape(facts: Facts, kind: str) -> AttentionShape:
    """Return the attention of a kind of layer.

    Source: Transformers' Gemma4TextConfig (per_layer_config).
    """
    heads = facts.integer("num_attention_heads")
    head_size = facts.integer("head_dim")
    kv_heads = facts.integer("num_key_value_heads", default=heads)
    if kind == FULL:
        head_size = facts.integer("global_head_dim", default=_GLOBAL_HEAD_DIM)
        if facts.flag("attention_k_eq_v"):
            kv_heads = facts.integer("num_global_key_value_heads", default=kv_heads)
    bias = facts.flag("attention_bias")
    return AttentionShape(
        hidden_size=facts.integer("hidden_size"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_size=head_size,
        qkv_bias=bias,
        output_bias=bias,
        # The values' norm multiplies by ones, which it keeps all the same.
        qk_norm_sizes=(head_size,) * 3,
    )


def _layer(facts: Facts, kind: str, *, is_shared: bool) -> LayerKind:
    """Return a layer; one that shares keeps no keys and values of its own."""
    shape = _shape(facts, kind)
    window = facts.integer("sliding_window") if kind == SLIDING else None
    cache = replace(kv_of(shape), sliding_window=window)
    is_wide = is_shared and facts.flag("use_double_wide_mlp")
    size, mlp_size = shape.hidden_size, facts.integer("intermediate_size")
    own = attention(shape)
    if is_shared:  # it attends to the keys and values of an earlier layer
        own = (QueryProjection(shape=shape), *query_attention(shape))
    modules = (
        *own,
        *gated_mlp(size, mlp_size * (2 if is_wide else 1)),
        norms(size, count=4),
        Replicated("layer_scalar", Part.BUFFERS, ((1,),)),
        *_experts(facts),
        *_layer_input(facts),
    )
    return LayerKind(() if is_shared else (cache,), modules)


@frozen
class QueryProjection(LinearByLayout):
    """The projection of a layer that attends to an earlier one's keys and values.

    Older releases project keys and values all the same, and norm them.

    Source: vLLM 0.30.0 `models/gemma4.py` Gemma4Attention.
    """

    shape: AttentionShape
    name: str = "self_attn.q_proj"
    part: Part = Part.ATTENTION

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weight and bias on a rank, of older releases also the norms."""
        held, size = self.as_linear(layout).tensors(layout), self.shape.head_size
        has_norms = not layout.release.has(HAS_QUERY_PROJECTIONS)
        return (*held, *((Tensor(size),) * 2 if has_norms else ()))

    def as_linear(
        self, layout: ParallelLayout
    ) -> ColumnParallelLinear | QKVParallelLinear:
        """Return vLLM's layer."""
        shape = self.shape
        if layout.release.has(HAS_QUERY_PROJECTIONS):
            return ColumnParallelLinear(
                self.name,
                self.part,
                shape.hidden_size,
                (shape.num_heads * shape.head_size,),
                bias=shape.qkv_bias,
                method=self.method,
            )
        return QKVParallelLinear(
            name="self_attn.qkv_proj",
            input_size=shape.hidden_size,
            num_heads=shape.num_heads,
            num_kv_heads=shape.num_kv_heads,
            head_size=shape.head_size,
            bias=shape.qkv_bias,
            method=self.method,
        )


def _experts(facts: Facts) -> tuple[Module, ...]:
    """Return router and experts, next to the MLP.

    Source: vLLM 0.33.0 `models/gemma4.py` Gemma4Router, Gemma4DecoderLayer.
    """
    count = facts.optional_integer("num_experts")
    if count is None:
        return ()
    size = facts.integer("hidden_size")
    return (
        # Scale per dimension, scale per expert, the projection's root, a norm's ones.
        Replicated("router", Part.ROUTER, ((size,), (count,), (), (size,))),
        ReplicatedLinear(
            "router.proj", Part.ROUTER, size, (count,), is_quantizable=False
        ),
        FusedMoE(
            name="experts",
            num_experts=count,
            top_k=facts.integer("top_k_experts"),
            hidden_size=size,
            intermediate_size=facts.integer(
                "moe_intermediate_size", "expert_intermediate_size"
            ),
            is_renormalized=False,  # its own routing function
            activation="gelu_tanh",
        ),
        Replicated("feedforward_layernorm", Part.NORMS, ((size,),) * 3),
    )


def _layer_input(facts: Facts) -> tuple[Module, ...]:
    """Return the modules for a layer's own embedding of each token."""
    inner = facts.optional_integer("hidden_size_per_layer_input")
    if not inner:
        return ()
    size = facts.integer("hidden_size")
    return (
        ReplicatedLinear("per_layer_input_gate", Part.MLP, size, (inner,)),
        ReplicatedLinear("per_layer_projection", Part.MLP, inner, (size,)),
        Replicated("post_per_layer_input_norm", Part.NORMS, ((size,),)),
    )


def _layer_embeddings(facts: Facts, num_layers: int) -> tuple[Module, ...]:
    """Return the embeddings of tokens for each layer, all layers in one table."""
    inner = facts.optional_integer("hidden_size_per_layer_input")
    if not inner:
        return ()
    name = "model.per_layer"
    return (
        VocabParallelEmbedding(
            "model.embed_tokens_per_layer",
            facts.integer("vocab_size_per_layer_input"),
            num_layers * inner,
        ),
        ColumnParallelLinear(
            f"{name}_model_projection",
            Part.EMBEDDINGS,
            facts.integer("hidden_size"),
            (num_layers * inner,),
        ),
        Replicated(f"{name}_projection_norm", Part.EMBEDDINGS, ((inner,), (), (), ())),
    )


def _rope_cache(facts: Facts, kind: str) -> Module:
    """Return the rotary table of a kind of layer.

    Source: vLLM 0.33.0 `layers/rotary_embedding/gemma4_rope.py`, whose table is as wide
    as a head whatever part of it is rotated.
    """
    head_size = _shape(facts, kind).head_size
    defaults = {
        FULL: {"rope_type": "proportional"},
        SLIDING: {"rope_type": "default"},
    }
    given = facts.mapping("rope_parameters") or defaults
    rope = rope_dict(for_layer_type(facts.having(rope_parameters=given), kind))
    if rope["rope_type"] == "proportional":
        width = head_size
    elif rope["rope_type"] == "default":
        factor = rope.get("partial_rotary_factor")
        width = int(head_size * (1.0 if factor is None else factor))
    else:
        raise facts.unsupported("rope_parameters", "default and proportional are.")
    return Replicated(
        f"rotary_emb.{kind}.cos_sin_cache",
        Part.BUFFERS,
        ((facts.integer("max_position_embeddings"), width),),
    )


READERS = {"Gemma4ForCausalLM": read_gemma4_text}
