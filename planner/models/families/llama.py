"""Llama and the decoders that differ from it in a bias, a norm or a name."""

from __future__ import annotations

from dataclasses import replace

from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import (
    Body,
    Label,
    Skeleton,
    assemble,
)
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    attention_shape,
    encoder_only,
    gated_mlp,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import (
    for_layer_type,
    inverse_frequencies,
    local_rope_cache,
    rope_cache,
)
from planner.models.families.styles import LLAMA, STYLES, Style
from planner.models.families.windows import layer_windows
from planner.models.layers import Module, Part, Replicated

__all__ = [
    "LLAMA",
    "STYLES",
    "Style",
    "is_causal",
    "read",
    "read_llama_attention",
]

_NEEDS_HEAD_DIM = ("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text", "ministral")
_XIELU = Replicated(
    name="mlp.act_fn",
    part=Part.MLP,
    shapes=((1,), (1,), (), ()),
    dtype="bfloat16",
)


def _flag(facts: Facts, value: bool | str) -> bool:
    return facts.flag(value) if isinstance(value, str) else value


def _attention(facts: Facts, style: Style) -> AttentionShape:
    if facts.model_type == "nemotron" and facts.value("num_key_value_heads") is None:
        # Its configuration class, unlike Llama's, has no default.
        raise Refused(
            "1 validation error for ModelConfig\ntotal_num_kv_heads\n  Input should be "
            "a valid integer [type=int_type, input_value=None, input_type=NoneType]"
        )
    if style.is_transformers_backend:
        check_head_dim(facts)
    return attention_shape(
        facts,
        qkv_bias=_flag(facts, style.qkv_bias),
        output_bias=_flag(facts, style.output_bias),
        has_qk_norm=_flag(facts, style.qk_norm),
    )


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


def read_llama_attention(facts: Facts) -> AttentionShape:
    """Return Llama's attention with its three spellings of a bias.

    Source: vLLM 0.33.0 `models/llama.py` LlamaDecoderLayer.
    """
    has_bias = facts.flag("attention_bias") or facts.flag("bias")
    qkv_bias = facts.value("qkv_bias")
    return attention_shape(
        facts,
        qkv_bias=has_bias if qkv_bias is None else bool(qkv_bias),
        output_bias=has_bias,
    )


def read(facts: Facts, label: Label, *, style: Style) -> ModelArchitecture:
    """Return a decoder of this family.

    Source: vLLM 0.33.0 `models/llama.py` and the module of each style;
    `models/transformers/` for those vLLM leaves to Transformers.
    """
    shape = read_llama_attention(facts) if style is LLAMA else _attention(facts, style)
    if style.is_qk_norm_wide:
        shape = _widen_norms(shape)
    elif facts.model_type.startswith("cohere") and shape.qk_norm_sizes:
        shape = replace(shape, qk_norm_sizes=(), has_qk_norm_per_rank=True)
    body = _body(facts, label, style, shape)
    return assemble(facts, label, _skeleton(facts, style, shape), body)


def _body(facts: Facts, label: Label, style: Style, shape: AttentionShape) -> Body:
    """Return the layers: one kind for each window that occurs."""
    num_layers = facts.integer("num_hidden_layers", "num_layers")
    windows = layer_windows(
        facts,
        num_layers,
        has_layer_windows=style.has_layer_windows,
        extra_tokens=style.extra_window_tokens,
    )
    modules = _layer_modules(facts, style, shape)
    distinct = tuple(dict.fromkeys(windows))
    causal = is_causal(facts, label)
    kinds = tuple(
        LayerKind(
            caches=(replace(kv_of(shape), sliding_window=window),)
            if causal
            else (encoder_only(shape),),
            modules=modules,
        )
        for window in distinct
    )
    return Body(kinds=kinds, layers=tuple(map(distinct.index, windows)))


def _widen_norms(shape: AttentionShape) -> AttentionShape:
    return replace(
        shape,
        qk_norm_sizes=(
            shape.num_heads * shape.head_size,
            shape.num_kv_heads * shape.head_size,
        ),
    )


def _layer_modules(
    facts: Facts, style: Style, shape: AttentionShape
) -> tuple[Module, ...]:
    mlp = gated_mlp if style.is_gated else plain_mlp
    layer = (
        *attention(shape),
        *mlp(
            shape.hidden_size,
            facts.integer("intermediate_size"),
            bias=_flag(facts, style.mlp_bias),
        ),
    )
    if style.has_xielu:
        layer = (*layer, _XIELU)
    if not style.norm_count:
        return layer
    return (
        *layer,
        norms(shape.hidden_size, count=style.norm_count, bias=style.norm_bias),
    )


def _skeleton(facts: Facts, style: Style, shape: AttentionShape) -> Skeleton:
    has_norm = bool(style.norm_count)
    return Skeleton(
        hidden_size=shape.hidden_size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(shape.hidden_size, count=1, bias=style.norm_bias),)
        if has_norm
        else (),
        embeddings_on=style.placement,
        norm_on=style.placement,
        head_on=style.placement,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        every_stage=(*_rotary(facts, style, shape), *_normalizer(facts)),
    )


def _rotary(facts: Facts, style: Style, shape: AttentionShape) -> tuple[Module, ...]:
    if style.has_local_rope:
        facts = for_layer_type(facts, "full_attention")
    if style.is_transformers_backend:
        frequencies = inverse_frequencies(facts, shape.head_size)
        return frequencies * 2 if style.has_local_rope else frequencies
    max_position = facts.integer("max_position_embeddings", default=8192)
    if facts.model_type.startswith("cohere"):
        max_position = facts.optional_integer("model_max_length") or max_position
    cache = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=max_position,
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
    return (Replicated(name="model.normalizer", part=Part.BUFFERS, shapes=((),)),)
