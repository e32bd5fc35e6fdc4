"""Nemotron-H with images, and sounds where configured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import parakeet
from planner.models.families.towers.blocks import AUDIO, IMAGE_AND_VIDEO
from planner.models.families.towers.radio import radio
from planner.models.layers import Module
from planner.models.states import Mamba2State

_TEXT = Text("nemotron_h", "NemotronHForCausalLM", other_name="llm_config")


def _without_state_dtype(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the language model, whose states have the dtype of its weights.

    Only for one name vLLM takes that from the config.

    Source: vLLM 0.33.0 `models/config.py` MODELS_CONFIG_MAP.
    """
    model = _TEXT(facts, label)
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


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/nano_nemotron_vl.py` NemotronH_Nano_VL_V2."""
    size = facts.integer("vit_hidden_size")
    merged = size * round(1 / facts.number("downsample_ratio")) ** 2
    wide = facts.integer("projector_hidden_size")
    modules = [
        *radio(sub_config(facts, "vision_config", "radio")),
        blocks.norms("mlp1.0", merged, bias=False),
        blocks.replicated("mlp1", (wide, merged), (text_size, wide)),
    ]
    if _TEXT.facts(facts).optional_integer("num_nextn_predict_layers"):
        modules.append(blocks.norms("vision_final_layernorm", size, bias=True))
    if not facts.mapping("sound_config"):
        return Tower(IMAGE_AND_VIDEO, tuple(modules))
    modules += _sounds(facts, text_size)
    return Tower((*IMAGE_AND_VIDEO, *AUDIO), tuple(modules))


def _sounds(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/parakeet.py` ProjectedParakeet."""
    sound, name = sub_config(facts, "sound_config", "parakeet_encoder"), "sound_encoder"
    size, wide = sound.integers("hidden_size", "projection_hidden_size")
    layers = ((wide, size), (text_size, wide))
    biases = ((wide,), (text_size,)) if sound.flag("projection_bias") else ()
    yield from parakeet(sound, f"{name}.encoder")
    yield blocks.norms(f"{name}.projection.norm", size, bias=False)
    yield blocks.replicated(f"{name}.projection", *layers, *biases)


_OMNI = Composite(_tower, text=_without_state_dtype, supports_pp=False)
READERS = {
    "NemotronH_Nano_VL_V2": replace(_OMNI, text=_TEXT),
    "NemotronH_Nano_Omni_Reasoning_V3": _OMNI,
    "NemotronH_Super_Omni_Reasoning_V3": _OMNI,
    "NemotronH_Omni_Reasoning_V3": _OMNI,
}
