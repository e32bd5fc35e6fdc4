"""Models that vLLM is told to leave to Transformers: the names `Transformers...`.

Their layers are those of Transformers' class for the model type, on vLLM's linear
layers; the readers of architectures that vLLM always leaves to it serve here too.

Source: vLLM 0.33.0 `models/transformers/` base.py, moe.py, pooling.py; Transformers
5.20.2, the modeling file of each model type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.conversion import converted
from planner.models.families.facts import Facts
from planner.models.families.styles import STYLES, Style
from planner.models.families.wrapped import Sparse, read_sparse_as

_PLAIN = Style(is_transformers_backend=True)
_BIASED = replace(_PLAIN, qkv_bias="attention_bias", output_bias="attention_bias")
_STYLES = {
    "llama": replace(_BIASED, mlp_bias="mlp_bias"),
    "mistral": _PLAIN,
    "ministral3": _PLAIN,
    "granite": replace(_BIASED, mlp_bias="mlp_bias"),
    "qwen2": replace(_PLAIN, qkv_bias=True, has_layer_windows=True),
    "qwen3": replace(_BIASED, qk_norm=True, has_layer_windows=True),
    "ernie4_5": replace(
        _PLAIN, qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias"
    ),
    "exaone4": replace(STYLES["Exaone4"], is_transformers_backend=True),
    "glm4": replace(STYLES["Glm4"], is_transformers_backend=True),
}
"""Decoders by model type that vLLM has a class of its own for, and Transformers'."""
_ALWAYS = {
    "arcee": "ArceeForCausalLM",
    "cwm": "CwmForCausalLM",
    "glm": "GlmForCausalLM",
    "gpt_bigcode": "GPTBigCodeForCausalLM",
    "gpt_neox": "GPTNeoXForCausalLM",
    "helium": "HeliumForCausalLM",
    "hunyuan_v1_dense": "HunYuanDenseV1ForCausalLM",
    "jais2": "Jais2ForCausalLM",
    "olmo": "OlmoForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "olmo3": "Olmo3ForCausalLM",
    "phi": "PhiForCausalLM",
    "seed_oss": "SeedOssForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
    "vaultgemma": "VaultGemmaForCausalLM",
}
"""Decoders by model type that vLLM always leaves to Transformers."""
_SPARSE_ALWAYS = {
    "flex_olmo": "FlexOlmoForCausalLM",
    "hunyuan_v1_moe": "HunYuanMoEV1ForCausalLM",
    "kolibri1": "Kolibri1ForCausalLM",
    "mellum": "MellumForCausalLM",
    "solar_open": "SolarOpenForCausalLM",
}
_SPARSE = {
    "mixtral": Sparse(),
    "qwen3_moe": Sparse(has_qk_norm=True),
}


def read_generic(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a model of Transformers, with experts or without, with a head or none."""
    is_sparse = label.architecture.startswith("TransformersMoE")
    model = (_read_sparse if is_sparse else _read_dense)(facts, label)
    model = replace(model, architecture=label.architecture)
    if label.architecture.endswith("ForCausalLM"):
        return model
    pooling = converted(model, facts, label.architecture)
    # They pool the first token, which needs a whole prompt; a file beside config.json
    # may say otherwise.
    return replace(pooling, is_encoder_only=True)


def _read_dense(facts: Facts, label: Label) -> ModelArchitecture:
    style = _STYLES.get(facts.model_type)
    if style is not None:
        return llama.read(facts, label, style=style)
    return _read_as(facts, label, _ALWAYS, _STYLES)


def _read_sparse(facts: Facts, label: Label) -> ModelArchitecture:
    family = _SPARSE.get(facts.model_type)
    if family is not None:
        return read_sparse_as(facts, label, family)
    return _read_as(facts, label, _SPARSE_ALWAYS, _SPARSE)


def _read_as(
    facts: Facts, label: Label, names: dict[str, str], own: Iterable[str]
) -> ModelArchitecture:
    """Return the model as the reader of its usual name has it."""
    name = names.get(facts.model_type)
    if name is None:
        raise facts.unsupported(
            "model_type",
            "through Transformers are: " + ", ".join(sorted({*names, *own})) + ".",
        )
    return label.readers[name](facts, label.of(name))


READERS = dict.fromkeys(
    (
        "TransformersForCausalLM",
        "TransformersMoEForCausalLM",
        "TransformersEmbeddingModel",
        "TransformersMoEEmbeddingModel",
        "TransformersForSequenceClassification",
        "TransformersMoEForSequenceClassification",
    ),
    read_generic,
)
