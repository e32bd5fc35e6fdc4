"""Llama and every decoder that differs from it by what a row of a style can say."""

from __future__ import annotations

from dataclasses import replace

from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import CacheLayer
from planner.models.families.assembly import Frame, Label, assemble, declared_experts
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    attention_shape,
    encoder_only,
    experts,
    gated_mlp,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.decoders import LLAMA
from planner.models.families.facts import Facts
from planner.models.families.rope import (
    for_layer_type,
    inverse_frequencies,
    local_rope_cache,
    rope_cache,
)
from planner.models.families.styles import Style, experts_shape, is_set
from planner.models.families.windows import layer_windows
from planner.models.layers import Module, Part, Replicated

__all__ = ["LLAMA", "Style", "is_causal", "read"]

_NEEDS_HEAD_DIM = ("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text", "ministral")


def read(facts: Facts, label: Label, *, style: Style) -> ModelArchitecture:
    """Return a decoder of this style.

    Source: vLLM 0.33.0 `models/llama.py` and the module of each style;
    `models/transformers/` for those vLLM leaves to Transformers.
    """
    if style.defaults:
        facts = Facts(facts.config, facts.model_type, style.defaults)
    usual = style.as_usual(facts)
    shape = _attention(usual, style)
    layers = _layers(usual, label, style, shape)
    count = 0 if style.experts is None else declared_experts(facts)
    frame = _frame(usual, style, shape)
    return assemble(facts, label, frame, layers, num_experts=count)


def _attention(facts: Facts, style: Style) -> AttentionShape:
    if style.is_transformers_backend:
        check_head_dim(facts)
    shape = attention_shape(
        facts,
        qkv_bias=is_set(facts, style.qkv_bias),
        output_bias=is_set(facts, style.output_bias),
        has_qk_norm=is_set(facts, style.qk_norm),
    )
    if shape.qk_norm_sizes and style.is_qk_norm_wide:
        heads = (shape.num_heads, shape.num_kv_heads)
        wide = tuple(count * shape.head_size for count in heads)
        shape = replace(shape, qk_norm_sizes=wide)
    elif shape.qk_norm_sizes and style.is_qk_norm_per_rank:
        shape = replace(shape, qk_norm_sizes=(), has_qk_norm_per_rank=True)
    return style.heads(facts, shape) if style.heads else shape


def check_head_dim(facts: Facts) -> None:
    """Refuse a config.json without head_dim where Transformers' class computes none.

    Raises:
        Refused: in the words that vLLM passes on.

    Source: Transformers 5.20.2, the configuration class of each model type.
    """
    given = facts.value("head_dim", "attention_head_dim")
    if facts.model_type in _NEEDS_HEAD_DIM and given is None:
        raise Refused(
            "unsupported operand type(s) for ** or pow(): 'NoneType' and 'float'"
        )


def is_causal(facts: Facts, label: Label) -> bool:
    """Return whether tokens see only what came before, which needs a KV cache.

    Raises:
        UnknownArchitecture: for a family that has no such switch in vLLM.

    Source: vLLM 0.33.0 `models/llama.py`, `qwen2.py` and `qwen3.py`: is_causal false
    makes attention encoder-only.
    """
    if facts.flag("is_causal", default=True):
        return True
    if not label.architecture.startswith(("Llama", "Mistral", "Qwen2", "Qwen3")):
        raise facts.unsupported("is_causal", "vLLM has it for Llama and Qwen only.")
    return False


def _layers(
    facts: Facts, label: Label, style: Style, shape: AttentionShape
) -> list[LayerKind]:
    """Return the layers: one kind for each window and MLP that occur together."""
    num_layers = facts.integer("num_hidden_layers", "num_layers")
    windows = (
        style.windows(facts, num_layers)
        if style.windows
        else layer_windows(
            facts,
            num_layers,
            has_layer_windows=style.has_layer_windows,
            extra_tokens=style.extra_window_tokens,
        )
    )
    causal = style.experts is not None or is_causal(facts, label)
    kept = kv_of(shape)
    if style.cache:
        kept = style.cache(facts, kept)
    kinds: dict[tuple[int | None, bool], LayerKind] = {}

    def layer(index: int, window: int | None) -> LayerKind:
        is_sparse = style.experts is not None and style.is_sparse(facts, index)
        if (window, is_sparse) not in kinds:
            cache: CacheLayer = (
                replace(kept, sliding_window=window) if causal else encoder_only(shape)
            )
            modules = _layer_modules(facts, style, shape, is_sparse=is_sparse)
            kinds[window, is_sparse] = LayerKind((cache,), modules)
        return kinds[window, is_sparse]

    return [layer(index, window) for index, window in enumerate(windows)]


def _layer_modules(
    facts: Facts, style: Style, shape: AttentionShape, *, is_sparse: bool
) -> tuple[Module, ...]:
    if is_sparse and style.experts:
        mlp = experts(experts_shape(facts, style.experts))
    elif style.mlp:
        mlp = style.mlp(facts, shape)
    else:
        mlp = (gated_mlp if style.is_gated else plain_mlp)(
            shape.hidden_size,
            facts.integer("intermediate_size"),
            bias=is_set(facts, style.mlp_bias),
        )
    own = style.own(facts, shape) if style.own else ()
    count = style.norm_count(facts) if callable(style.norm_count) else style.norm_count
    mixer = style.attention(facts, shape) if style.attention else attention(shape)
    return (*mixer, *mlp, *own, *_norms(style, shape, count))


def _norms(style: Style, shape: AttentionShape, count: int) -> tuple[Module, ...]:
    if not count:
        return ()
    return (norms(shape.hidden_size, count=count, bias=style.norm_bias),)


def _frame(facts: Facts, style: Style, shape: AttentionShape) -> Frame:
    has_norm = style.norm_count and is_set(facts, style.has_final_norm)
    more = style.extra_embeddings
    return Frame(
        shape.hidden_size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=_norms(style, shape, 1 if has_norm else 0),
        placement=style.placement,
        is_tied=facts.flag("tie_word_embeddings"),
        lm_head_bias=style.lm_head_bias,
        is_head_quantizable=style.is_head_quantizable,
        extra_embeddings=more(facts, shape) if more else (),
        every_stage=(*_rotary(facts, style, shape), *_normalizer(facts)),
    )


def _rotary(facts: Facts, style: Style, shape: AttentionShape) -> tuple[Module, ...]:
    if style.rope:
        return style.rope(facts, shape)
    if style.has_local_rope:
        facts = for_layer_type(facts, "full_attention")
    if style.is_transformers_backend:
        frequencies = inverse_frequencies(facts, shape.head_size)
        return frequencies * 2 if style.has_local_rope else frequencies
    max_position = facts.integer("max_position_embeddings", default=8192)
    dim = style.rotary_dim
    cache = rope_cache(
        facts,
        shape.head_size,
        max_position=max_position,
        dim=dim(facts, shape.head_size) if dim else None,
        mrope_positions_factor=style.mrope_positions_factor,
    )
    if not style.has_local_rope:
        return cache
    return (*cache, *local_rope_cache(shape.head_size, max_position))


def _normalizer(facts: Facts) -> tuple[Module, ...]:
    """Return the number by which Gemma's classes scale word embeddings.

    Source: vLLM 0.33.0 `models/gemma.py`, `gemma2.py` and `gemma3.py` (normalizer).
    """
    if not facts.model_type.startswith("gemma"):
        return ()
    return (Replicated("model.normalizer", Part.BUFFERS, ((),)),)
