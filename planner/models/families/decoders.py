"""Decoders with an MLP in each layer that differ from Llama by facts only.

Source: vLLM 0.33.0 `models/`, the module of each class, such as `hyperclovax.py`,
`plamo3.py`, `rnj1.py`, `step1.py` and `telechat2.py`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.errors import Refused
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Placement
from planner.models.families.decoder import AttentionShape, gated_mlp, sinks
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache, typed_ropes
from planner.models.families.styles import Style, no_rope, unless_off
from planner.models.families.windows import FULL, SLIDING, no_windows, typed_windows
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
        shape.head_size,
        local=facts.having(rope_parameters=theta),
    )
    return tuple(replace(table, ends_with_length=True) for table in tables)


def _rnj1_ropes(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    normalizer = Replicated("model.normalizer", Part.BUFFERS, ((),), dtype="float32")
    tables = typed_ropes(facts, facts.value("layer_types") or [FULL], shape.head_size)
    return (*tables, normalizer)


def even_heads(_facts: Facts, shape: AttentionShape) -> AttentionShape:
    """Return attention whose heads share the model's width evenly."""
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
        shape.head_size,
        default_positions=8192,
    )
    thetas = facts.value("layer_rope_theta") or [1]
    return tables * len({theta for theta in thetas if theta})


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
            Replicated("mlp.act_fn", Part.MLP, ((1,), (1,), (), ()), dtype="bfloat16"),
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
        windows=no_windows,
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
        windows=no_windows,
        rope=_rnj1_ropes,
        placement=_EVERYWHERE,
    ),
    "Step1ForCausalLM": replace(
        BIASED,
        fields={
            "num_key_value_heads": lambda facts: facts.integer(
                "num_attention_groups", "num_key_value_heads", default=1
            ),
            "tie_word_embeddings": unless_off("tie_word_embeddings"),
        },
        heads=even_heads,
        cache=_with_alibi_sqrt,
        windows=no_windows,
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
        windows=no_windows,
        mlp=_telechat2_mlp,
    ),
    "GraniteSWAForCausalLM": replace(
        LLAMA,
        windows=typed_windows,
        cache=with_granite_sinks,
        own=granite_sinks,
        rope=granite_ropes,
    ),
}
"""By architecture."""
