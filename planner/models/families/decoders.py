"""Decoders with an MLP in each layer that differ from Llama by facts only.

Source: vLLM 0.33.0 `models/`, the module of each class.
"""

from __future__ import annotations

from dataclasses import replace

from planner.errors import Refused
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Placement
from planner.models.families.decoder import (
    AttentionShape,
    gated_mlp,
    learned_positions,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import FULL, SLIDING, sinks, typed_ropes
from planner.models.families.rope import rope_cache
from planner.models.families.styles import Style, no_rope
from planner.models.families.windows import typed_windows
from planner.models.layers import Module, Part, Replicated

_EVERYWHERE = Placement.EVERYWHERE


def llama_qkv_bias(facts: Facts) -> bool:
    """Return whether Llama's query, key and value have a bias, of three spellings.

    Source: vLLM 0.33.0 `models/llama.py` LlamaDecoderLayer.
    """
    own = facts.value("qkv_bias")
    has_bias = facts.flag("attention_bias") or facts.flag("bias")
    return has_bias if own is None else bool(own)


LLAMA = Style(
    qkv_bias=llama_qkv_bias,
    output_bias=("attention_bias", "bias"),
    mlp_bias="mlp_bias",
    has_layer_windows=True,
)
BIASED = Style(qkv_bias="attention_bias", output_bias="attention_bias")


def _kv_heads_given(facts: Facts, shape: AttentionShape) -> AttentionShape:
    """Refuse a config without KV heads: unlike Llama's, its class has no default."""
    if facts.value("num_key_value_heads") is None:
        raise Refused(
            "1 validation error for ModelConfig\ntotal_num_kv_heads\n  Input should be "
            "a valid integer [type=int_type, input_value=None, input_type=NoneType]"
        )
    return shape


def _cohere_length(facts: Facts) -> int:
    return facts.optional_integer("model_max_length") or facts.integer(
        "max_position_embeddings", default=8192
    )


_COHERE = Style(
    fields={"max_position_embeddings": _cohere_length},
    norm_count=1,
    qk_norm="use_qk_norm",
    is_qk_norm_per_rank=True,
    placement=_EVERYWHERE,
)


def _plamo3_windows(facts: Facts, num_layers: int) -> list[int | None]:
    given = facts.value("interleaved_sliding_window")
    return list(given or typed_windows(facts, num_layers))


def _plamo3_ropes(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    """Return tables that end with max_model_len, of windows and of full attention."""
    windows = _plamo3_windows(facts, facts.integer("num_hidden_layers"))
    theta = {"rope_type": "default", "rope_theta": facts.value("rope_local_theta")}
    tables = typed_ropes(
        facts,
        (FULL if window is None else SLIDING for window in windows),
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
        local=Facts({**facts.config, "rope_parameters": theta}, facts.model_type),
    )
    return tuple(replace(table, ends_with_length=True) for table in tables)


def _rnj1_ropes(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    normalizer = Replicated(
        name="model.normalizer", part=Part.BUFFERS, shapes=((),), dtype="float32"
    )
    tables = typed_ropes(
        facts,
        facts.value("layer_types") or [FULL],
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    return (*tables, normalizer)


def _even_heads(_facts: Facts, shape: AttentionShape) -> AttentionShape:
    return replace(shape, head_size=shape.hidden_size // shape.num_heads)


def _with_alibi_sqrt(_facts: Facts, cache: AttentionLayer) -> AttentionLayer:
    return replace(cache, uses_alibi_sqrt=True)


def _telechat2_mlp(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    """Return an MLP with a bias on its output only."""
    width = facts.integer("intermediate_size")
    up, _down = gated_mlp(shape.hidden_size, width)
    _up, down = gated_mlp(shape.hidden_size, width, bias=True)
    return (up, down)


def granite_sinks(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    """Return Granite's sinks, which models with windows have unless told otherwise."""
    return (sinks(shape.num_heads),) if _has_sinks(facts) else ()


def with_granite_sinks(facts: Facts, cache: AttentionLayer) -> AttentionLayer:
    """Return a cache that knows whether the layer has sinks."""
    return replace(cache, has_sinks=_has_sinks(facts))


def _has_sinks(facts: Facts) -> bool:
    return facts.flag("attention_sinks", default=bool(facts.value("layer_types")))


def granite_ropes(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    """Return a table for each base; a base of 0 stands for no positions.

    Source: vLLM 0.33.0 `models/granite.py` granite_layer_attn_params.
    """
    tables = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings", default=8192),
    )
    thetas = facts.value("layer_rope_theta") or [1]
    return tables * len({theta for theta in thetas if theta})


def inner_width(facts: Facts) -> int:
    """Return the width of GPT-2's MLP."""
    size = facts.integer("hidden_size", "n_embd")
    return facts.optional_integer("n_inner") or 4 * size


GPT2_NAMES = {
    "hidden_size": ("hidden_size", "n_embd"),
    "num_attention_heads": ("num_attention_heads", "n_head"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions"),
    "intermediate_size": inner_width,
}
GPT2 = Style(
    fields=GPT2_NAMES,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    is_gated=False,
    norm_bias=True,
    placement=_EVERYWHERE,
    rope=no_rope,
    extra_embeddings=lambda facts, shape: (
        learned_positions(
            facts.integer("max_position_embeddings"), shape.hidden_size, "wpe"
        ),
    ),
)


def _opt_positions(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    """Return OPT's positions, which start at 2."""
    rows = facts.integer("max_position_embeddings") + 2
    return (learned_positions(rows, shape.hidden_size, "embed_positions"),)


def _opt_heads(facts: Facts, shape: AttentionShape) -> AttentionShape:
    """Refuse the one size whose embeddings are narrower; without it they are not."""
    if facts.optional_integer("word_embed_proj_dim") not in (None, shape.hidden_size):
        raise facts.unsupported(
            "word_embed_proj_dim", "only hidden_size is (all sizes but 350m)."
        )
    return shape


def _opt_final_norm(facts: Facts) -> bool:
    return facts.flag("do_layer_norm_before", default=True) and not facts.flag(
        "_remove_final_layer_norm"
    )


def _falcon_kv_heads(facts: Facts) -> int | None:
    if facts.flag("new_decoder_architecture"):
        return facts.integer("num_kv_heads")
    return 1 if facts.flag("multi_query") else None


def _falcon_norms(facts: Facts) -> int:
    count = facts.optional_integer("num_ln_in_parallel_attn")
    is_new = facts.flag("new_decoder_architecture")
    has_two = not facts.flag("parallel_attn", default=True) or (
        is_new and count in (None, 2)
    )
    return 2 if has_two else 1


def _falcon_rope(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    if facts.flag("alibi"):
        return ()
    length = facts.integer("max_position_embeddings", default=8192)
    return rope_cache(facts, head_size=shape.head_size, max_position=length)


def _is_tied(facts: Facts) -> bool:
    """Return whether the head is tied, which it is unless the config says otherwise."""
    return facts.flag("tie_word_embeddings", default=True)


ROWS = {
    **dict.fromkeys(
        (
            "LlamaForCausalLM",
            "LLaMAForCausalLM",
            "LlamaModel",
            "MistralModel",
            "InternLM3ForCausalLM",
            "IQuestCoderForCausalLM",
            "TeleChat3ForCausalLM",
            "MistralForCausalLM",
            "SolarForCausalLM",
            "Ministral3ForCausalLM",
            "GraniteForCausalLM",
            "Ernie4_5ForCausalLM",
            "ExaoneForCausalLM",
            "TeleFLMForCausalLM",
        ),
        LLAMA,
    ),
    **dict.fromkeys(
        ("Qwen2ForCausalLM", "Qwen2Model", "MiMoForCausalLM"), Style(qkv_bias=True)
    ),
    "Qwen3ForCausalLM": replace(BIASED, qk_norm=True),
    "Phi3ForCausalLM": Style(),
    "GemmaForCausalLM": replace(BIASED, placement=_EVERYWHERE),
    **dict.fromkeys(
        ("Gemma2ForCausalLM", "Gemma2Model"),
        replace(BIASED, norm_count=4, placement=_EVERYWHERE, has_layer_windows=True),
    ),
    "Gemma3ForCausalLM": replace(
        BIASED,
        norm_count=4,
        qk_norm=True,
        placement=_EVERYWHERE,
        has_layer_windows=True,
        has_local_rope=True,
    ),
    "Exaone4ForCausalLM": replace(BIASED, qk_norm=True, has_layer_windows=True),
    "CohereForCausalLM": _COHERE,
    "Cohere2ForCausalLM": replace(
        _COHERE, has_layer_windows=True, extra_window_tokens=1
    ),
    "ApertusForCausalLM": replace(
        BIASED,
        mlp_bias="mlp_bias",
        is_gated=False,
        qk_norm=True,
        has_layer_windows=True,
        # The activation has two scalars to learn and two fixed ones.
        own=lambda _facts, _shape: (
            Replicated(
                name="mlp.act_fn",
                part=Part.MLP,
                shapes=((1,), (1,), (), ()),
                dtype="bfloat16",
            ),
        ),
    ),
    "Glm4ForCausalLM": Style(qkv_bias="attention_bias", norm_count=4),
    "NemotronForCausalLM": replace(
        BIASED,
        heads=_kv_heads_given,
        mlp_bias="mlp_bias",
        is_gated=False,
        norm_bias=True,
    ),
    "OrionForCausalLM": Style(norm_bias=True, placement=_EVERYWHERE),
    "StableLmForCausalLM": Style(
        qkv_bias="use_qkv_bias", norm_bias=True, placement=_EVERYWHERE
    ),
    "InternLM2ForCausalLM": Style(
        qkv_bias="bias", output_bias="bias", placement=_EVERYWHERE
    ),
    "MiniCPMForCausalLM": Style(placement=_EVERYWHERE),
    "HyperCLOVAXForCausalLM": replace(
        BIASED,
        mlp_bias="mlp_bias",
        norm_count=lambda facts: 4 if facts.flag("use_post_norm") else 2,
    ),
    "Plamo3ForCausalLM": Style(
        qk_norm=True,
        norm_count=4,
        windows=_plamo3_windows,
        rope=_plamo3_ropes,
        placement=_EVERYWHERE,
    ),
    # Gemma 3's layers, whose chunks keep all tokens.
    "Rnj1ForCausalLM": replace(
        BIASED,
        qk_norm=True,
        norm_count=4,
        windows=lambda _facts, count: [None] * count,
        rope=_rnj1_ropes,
        placement=_EVERYWHERE,
    ),
    "Step1ForCausalLM": replace(
        BIASED,
        fields={
            "num_key_value_heads": lambda facts: facts.integer(
                "num_attention_groups", "num_key_value_heads", default=1
            ),
            "tie_word_embeddings": _is_tied,
        },
        heads=_even_heads,
        cache=_with_alibi_sqrt,
        mlp_bias="mlp_bias",
        rope=no_rope,
    ),
    "TeleChat2ForCausalLM": Style(
        fields={
            "num_hidden_layers": ("n_layer", "num_hidden_layers"),
            "num_attention_heads": ("n_head", "num_attention_heads"),
            "intermediate_size": ("ffn_hidden_size", "intermediate_size"),
        },
        output_bias=True,
        mlp=_telechat2_mlp,
    ),
    "GraniteSWAForCausalLM": replace(
        LLAMA,
        windows=typed_windows,
        cache=with_granite_sinks,
        own=granite_sinks,
        rope=granite_ropes,
    ),
    "GPT2LMHeadModel": GPT2,
    "GPTJForCausalLM": replace(
        GPT2,
        fields={**GPT2_NAMES, "tie_word_embeddings": False},
        qkv_bias=False,
        output_bias=False,
        norm_count=1,
        lm_head_bias=True,
        extra_embeddings=None,
        rope=None,
        rotary_dim=lambda facts, _size: facts.integer("rotary_dim"),
    ),
    "OPTForCausalLM": replace(
        GPT2,
        fields={
            "intermediate_size": "ffn_dim",
            "enable_bias": lambda facts: facts.flag("enable_bias", default=True),
        },
        heads=_opt_heads,
        qkv_bias="enable_bias",
        output_bias="enable_bias",
        mlp_bias="enable_bias",
        has_final_norm=_opt_final_norm,
        extra_embeddings=_opt_positions,
    ),
    "FalconForCausalLM": replace(
        GPT2,
        fields={
            **GPT2_NAMES,
            "num_key_value_heads": _falcon_kv_heads,
            "intermediate_size": lambda facts: (
                facts.optional_integer("ffn_hidden_size")
                or 4 * facts.integer("hidden_size", "n_embd")
            ),
            "tie_word_embeddings": _is_tied,
        },
        heads=lambda facts, shape: replace(
            shape, heeds_kv_cache_dtype=facts.flag("alibi")
        ),
        qkv_bias="bias",
        output_bias="bias",
        mlp_bias="bias",
        norm_count=_falcon_norms,
        extra_embeddings=None,
        rope=_falcon_rope,
    ),
    "BloomForCausalLM": replace(
        GPT2,
        fields={
            **GPT2_NAMES,
            "intermediate_size": lambda facts: (
                4 * facts.integer("hidden_size", "n_embd")
            ),
            "tie_word_embeddings": _is_tied,
        },
        extra_embeddings=lambda _facts, shape: (
            norms(shape.hidden_size, count=1, bias=True),
        ),
    ),
}
"""By architecture."""

STYLES = {name.removesuffix("ForCausalLM"): style for name, style in ROWS.items()}
