"""Nemotron-H with images, and sounds where configured."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import parakeet
from planner.models.families.towers.radio import radio
from planner.models.layers import Module
from planner.models.states import Mamba2State

_WITH_DTYPE = ("NemotronH_Nano_VL_V2",)
"""Names for which vLLM takes the states' dtype from the config.

Source: vLLM 0.33.0 `models/config.py` MODELS_CONFIG_MAP.
"""


def read_nemotron_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Nemotron-H with images, and sounds where configured, on one stage only.

    Source: vLLM 0.33.0 `models/nano_nemotron_vl.py` NemotronH_Nano_VL_V2.
    """
    name = "llm_config" if facts.mapping("llm_config") else "text_config"
    text = text_facts(facts, "nemotron_h", name=name)
    inner = {**text.config, "architectures": ["NemotronHForCausalLM"]}
    model = read_language_model(Facts(inner, "nemotron_h"), label)
    size = facts.integer("vit_hidden_size")
    ratio = facts.number("downsample_ratio")
    merged = size * round(1 / ratio) ** 2
    wide = facts.integer("projector_hidden_size")
    modules: tuple[Module, ...] = (
        *radio(facts),
        blocks.norms("mlp1.0", merged, bias=False),
        blocks.replicated("mlp1", (wide, merged), (model.hidden_size, wide)),
    )
    if text.optional_integer("num_nextn_predict_layers"):
        modules = (*modules, blocks.norms("vision_final_layernorm", size, bias=True))
    if label.architecture not in _WITH_DTYPE:
        model = _without_state_dtype(model)
    modalities: tuple[str, ...] = ("image", "video")
    if facts.mapping("sound_config"):
        modules = (*modules, *_sounds(facts, model.hidden_size))
        modalities = (*modalities, "audio")
    tower = Tower(modalities=modalities, modules=modules)
    whole = composed(facts, label, model, tower)
    return replace(whole, supports_pp=False)


def _sounds(facts: Facts, text_size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/parakeet.py` ProjectedParakeet."""
    sound, name = sub_config(facts, "sound_config", "parakeet_encoder"), "sound_encoder"
    size, wide = sound.integer("hidden_size"), sound.integer("projection_hidden_size")
    layers = ((wide, size), (text_size, wide))
    biases = ((wide,), (text_size,)) if sound.flag("projection_bias") else ()
    return (
        *parakeet(sound, f"{name}.encoder"),
        blocks.norms(f"{name}.projection.norm", size, bias=False),
        blocks.replicated(f"{name}.projection", *layers, *biases),
    )


def _without_state_dtype(model: ModelArchitecture) -> ModelArchitecture:
    """Return the model whose states have the dtype of its weights."""
    kinds = tuple(
        replace(
            kind,
            caches=tuple(
                replace(cache, recurrent_dtype=None, has_default_dtype=False)
                if isinstance(cache, Mamba2State)
                else cache
                for cache in kind.caches
            ),
        )
        for kind in model.layer_kinds
    )
    return replace(model, layer_kinds=kinds)


READERS = {
    "NemotronH_Nano_VL_V2": read_nemotron_vl,
    "NemotronH_Nano_Omni_Reasoning_V3": read_nemotron_vl,
    "NemotronH_Super_Omni_Reasoning_V3": read_nemotron_vl,
    "NemotronH_Omni_Reasoning_V3": read_nemotron_vl,
}
