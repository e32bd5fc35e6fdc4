"""Models that vLLM leaves to Transformers: always, or by the names `Transformers...`.

Their layers are those of Transformers' class, on vLLM's linear layers.

Source: vLLM 0.33.0 `models/transformers/` base.py, moe.py, pooling.py; Transformers
5.20.2, the modeling file of each model type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.conversion import converted
from planner.models.families.decoder import AttentionShape, attention_scales
from planner.models.families.decoders import BIASED
from planner.models.families.decoders import ROWS as DECODERS
from planner.models.families.deepseek_v2 import LATENT, read_latent
from planner.models.families.facts import Facts
from planner.models.families.gpt2 import GPT2
from planner.models.families.rope import for_layer_type, inverse_frequencies
from planner.models.families.styles import Experts, Style, unless_off
from planner.models.families.windows import FULL, no_windows, typed_windows
from planner.models.layers import Module, Part, Replicated, ReplicatedLinear

PLAIN = Style(is_transformers_backend=True)
_BIASED = replace(BIASED, is_transformers_backend=True)
_MLP_BIASED = replace(_BIASED, mlp_bias="mlp_bias")
_OLMO2 = replace(_BIASED, qk_norm=True, is_qk_norm_wide=True)


def _no_qk_norm(facts: Facts, shape: AttentionShape) -> AttentionShape:
    if facts.flag("qk_layernorm"):
        raise facts.unsupported("qk_layernorm", "no published model has it.")
    return shape


def _in_full(name: str, columns: int, rows: int, part: Part) -> ReplicatedLinear:
    return ReplicatedLinear(name, part, columns, (rows,), bias=True)


def attention_in_full(_facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    """Return the projections of attention, all of them on every rank."""
    size = shape.hidden_size
    rows = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_size
    return (
        _in_full("attn.c_attn", size, rows, Part.ATTENTION),
        _in_full("attn.c_proj", size, size, Part.ATTENTION),
        attention_scales(),
    )


def _mlp_in_full(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    size, inner = shape.hidden_size, facts.integer("intermediate_size")
    return (
        _in_full("mlp.c_fc", size, inner, Part.MLP),
        _in_full("mlp.c_proj", inner, size, Part.MLP),
    )


def _causal_mask(facts: Facts, _shape: AttentionShape) -> tuple[Module, ...]:
    length = facts.integer("max_position_embeddings")
    mask = Replicated("bias", Part.BUFFERS, ((length, length),), dtype="uint8")
    return (mask,)


def multi_query(facts: Facts) -> int | None:
    """Return GPT-BigCode's KV heads where they are not as many as the others."""
    return 1 if facts.flag("multi_query") else None


_DENSE = {
    "ArceeForCausalLM": replace(_MLP_BIASED, is_gated=False),
    "CwmForCausalLM": replace(PLAIN, mlp_bias="mlp_bias", has_layer_windows=True),
    "GlmForCausalLM": replace(PLAIN, qkv_bias="attention_bias"),
    # It has no tensor-parallel plan: every rank holds the MLP and a mask in full.
    "GPTBigCodeForCausalLM": replace(
        GPT2,
        fields={**GPT2.fields, "num_key_value_heads": multi_query},
        mlp=_mlp_in_full,
        rope=_causal_mask,
    ),
    "GPTNeoXForCausalLM": replace(
        PLAIN,
        fields={"attention_bias": unless_off("attention_bias")},
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        windows=no_windows,
        mlp_bias=True,
        is_gated=False,
        norm_bias=True,
    ),
    "HeliumForCausalLM": replace(PLAIN, qkv_bias="attention_bias", mlp_bias="mlp_bias"),
    "HunYuanDenseV1ForCausalLM": replace(_BIASED, qk_norm=True),
    "Jais2ForCausalLM": replace(_MLP_BIASED, is_gated=False, norm_bias=True),
    "MinistralForCausalLM": replace(PLAIN, has_layer_windows=True),
    "NanoChatForCausalLM": replace(_BIASED, is_gated=False, norm_count=0),
    "OlmoForCausalLM": replace(_BIASED, norm_count=0),
    "Olmo2ForCausalLM": _OLMO2,
    "Olmo3ForCausalLM": replace(_OLMO2, has_layer_windows=True, has_local_rope=True),
    "PhiForCausalLM": replace(
        PLAIN,
        heads=_no_qk_norm,
        windows=no_windows,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        is_gated=False,
        norm_count=1,
        norm_bias=True,
    ),
    "SeedOssForCausalLM": replace(_MLP_BIASED, output_bias="attention_out_bias"),
    "SmolLM3ForCausalLM": _MLP_BIASED,
    "Starcoder2ForCausalLM": replace(
        PLAIN,
        qkv_bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
        is_gated=False,
        norm_bias=True,
    ),
    "VaultGemmaForCausalLM": replace(_BIASED, has_layer_windows=True),
}


def _frequencies(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    """Return the buffers, a pair for each kind of layer where they are kept so."""
    by_type = facts.mapping("rope_parameters")
    types = facts.value("layer_types") or [FULL]
    kinds = [
        kind for kind in dict.fromkeys(types) if isinstance(by_type.get(kind), dict)
    ]
    own = [for_layer_type(facts, kind) for kind in kinds] or [facts]
    return tuple(
        buffers
        for each in own
        for buffers in inverse_frequencies(each, shape.head_size)
    )


def _is_sparse(facts: Facts, layer: int) -> bool:
    types = facts.value("mlp_layer_types")
    return not types or bool(types[layer] == "sparse")


def _top_k(facts: Facts) -> int:
    """Return the experts of a token; a list says how many in each layer."""
    names = ("num_experts_per_tok", "moe_topk", "num_experts_per_token")
    given = facts.value(*names)
    return int(given[0]) if isinstance(given, list) else facts.integer(*names)


def _shared_width(facts: Facts) -> int:
    own = facts.optional_integer("shared_expert_intermediate_size")
    if own is not None:
        return own
    count = facts.optional_integer(
        "n_shared_experts", "num_shared_experts", "moe_num_shared_experts"
    )
    width = facts.integer("moe_intermediate_size")
    return width if count is None else width * count


_EXPERTS = Experts(is_renormalized=unless_off("norm_topk_prob"))
_SHARED = replace(_EXPERTS, shared=_shared_width)
MIXTURE = replace(
    _BIASED,
    fields={
        "num_experts": (
            "num_experts",
            "n_routed_experts",
            "num_local_experts",
            "moe_num_experts",
        ),
        "num_experts_per_tok": _top_k,
        "moe_intermediate_size": ("moe_intermediate_size", "intermediate_size"),
    },
    windows=typed_windows,
    rope=_frequencies,
    experts=_EXPERTS,
    is_sparse=_is_sparse,
)
_MIXTURES = {
    "AriaTextForCausalLM": replace(MIXTURE, experts=_SHARED),
    "FlexOlmoForCausalLM": replace(MIXTURE, qk_norm=True, is_qk_norm_wide=True),
    "HunYuanMoEV1ForCausalLM": replace(
        MIXTURE,
        qk_norm=True,
        experts=replace(_SHARED, shared_name="shared_mlp", router_dtype="float32"),
    ),
    "Kolibri1ForCausalLM": replace(
        MIXTURE,
        qk_norm=True,
        norm_count=4,
        experts=replace(_SHARED, has_correction_bias=True),
    ),
    "MellumForCausalLM": replace(MIXTURE, qk_norm=True),
    "PhimoeForCausalLM": replace(MIXTURE, norm_bias=True),
    "SolarOpenForCausalLM": replace(
        MIXTURE, output_bias=False, experts=replace(_SHARED, has_correction_bias=True)
    ),
}
ROWS: dict[str, Style] = {**_DENSE, **_MIXTURES}
"""By architecture: what vLLM always leaves to Transformers."""


def read_youtu(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Youtu: latent attention and a plain MLP in each layer."""
    if facts.flag("attention_bias"):
        raise facts.unsupported("attention_bias", "latent attention has none here.")
    if facts.optional_integer("n_routed_experts") is not None:
        raise facts.unsupported("n_routed_experts", "it has no experts.")
    model = read_latent(facts, label, style=LATENT)
    frequencies = inverse_frequencies(facts, facts.integer("qk_rope_head_dim"))
    tied = facts.flag("tie_word_embeddings")
    last = tuple(m for m in model.last_stage if not (tied and m.part is Part.LM_HEAD))
    return replace(
        model,
        every_stage=frequencies,
        last_stage=last,
        tied_embeddings=model.first_stage if tied else (),
    )


_EXAONE4, _GLM4 = DECODERS["Exaone4ForCausalLM"], DECODERS["Glm4ForCausalLM"]
_BY_TYPE: Mapping[str, Style] = {
    "arcee": _DENSE["ArceeForCausalLM"],
    "cwm": _DENSE["CwmForCausalLM"],
    "ernie4_5": replace(
        PLAIN, qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias"
    ),
    "exaone4": replace(_EXAONE4, is_transformers_backend=True),
    "glm": _DENSE["GlmForCausalLM"],
    "glm4": replace(_GLM4, is_transformers_backend=True),
    "gpt_bigcode": _DENSE["GPTBigCodeForCausalLM"],
    "gpt_neox": _DENSE["GPTNeoXForCausalLM"],
    "granite": _MLP_BIASED,
    "helium": _DENSE["HeliumForCausalLM"],
    "hunyuan_v1_dense": _DENSE["HunYuanDenseV1ForCausalLM"],
    "jais2": _DENSE["Jais2ForCausalLM"],
    "llama": _MLP_BIASED,
    "ministral3": PLAIN,
    "mistral": PLAIN,
    "olmo": _DENSE["OlmoForCausalLM"],
    "olmo2": _OLMO2,
    "olmo3": _DENSE["Olmo3ForCausalLM"],
    "phi": _DENSE["PhiForCausalLM"],
    "qwen2": replace(PLAIN, qkv_bias=True, has_layer_windows=True),
    "qwen3": replace(_BIASED, qk_norm=True, has_layer_windows=True),
    "seed_oss": _DENSE["SeedOssForCausalLM"],
    "smollm3": _MLP_BIASED,
    "starcoder2": _DENSE["Starcoder2ForCausalLM"],
    "vaultgemma": _DENSE["VaultGemmaForCausalLM"],
}
_MIXTURE_BY_TYPE: Mapping[str, Style] = {
    "flex_olmo": _MIXTURES["FlexOlmoForCausalLM"],
    "hunyuan_v1_moe": _MIXTURES["HunYuanMoEV1ForCausalLM"],
    "kolibri1": _MIXTURES["Kolibri1ForCausalLM"],
    "mellum": _MIXTURES["MellumForCausalLM"],
    "mixtral": MIXTURE,
    "qwen3_moe": replace(MIXTURE, qk_norm=True),
    "solar_open": _MIXTURES["SolarOpenForCausalLM"],
}


def read_generic(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a model of Transformers, with experts or without, with a head or none."""
    is_sparse = label.architecture.startswith("TransformersMoE")
    styles = _MIXTURE_BY_TYPE if is_sparse else _BY_TYPE
    if facts.model_type not in styles:
        raise facts.unsupported(
            "model_type", "through Transformers are: " + ", ".join(sorted(styles)) + "."
        )
    model = llama.read(facts, label, style=styles[facts.model_type])
    if label.architecture.endswith("ForCausalLM"):
        return model
    pooling = converted(model, facts, label.architecture)
    # They pool the first token, which needs a whole prompt; a file beside config.json
    # may say otherwise.
    return replace(pooling, is_encoder_only=True)


READERS = {
    "YoutuForCausalLM": read_youtu,
    **dict.fromkeys(
        (
            "TransformersForCausalLM",
            "TransformersMoEForCausalLM",
            "TransformersEmbeddingModel",
            "TransformersMoEEmbeddingModel",
            "TransformersForSequenceClassification",
            "TransformersMoEForSequenceClassification",
        ),
        read_generic,
    ),
}
