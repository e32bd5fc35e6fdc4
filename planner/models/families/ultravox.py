"""Ultravox: Whisper's encoder, and frames stacked for a language model."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    read_language_model,
    sub_config,
    text_of,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.whisper import encoder_modules


def read_ultravox(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Ultravox: Whisper's encoder, and frames stacked for a language model.

    Source: vLLM 0.33.0 `models/ultravox.py`.
    """
    for name in ("audio_model_id", "text_model_id"):
        if facts.value(name) and not facts.mapping(name.replace("model_id", "config")):
            raise facts.unsupported(name, "that model's config is needed here.")
    if facts.optional_integer("num_projector_layers"):
        raise facts.unsupported("num_projector_layers", "a plain projector is.")
    model = read_language_model(text_of(facts), label)
    audio = sub_config(facts, "audio_config", "whisper")
    stacked = audio.integer("d_model") * facts.integer("stack_factor")
    wide, name = facts.integer("hidden_size"), "multi_modal_projector"
    middle = wide // 2 if facts.value("projector_act") == "swiglu" else wide
    text_size = model.hidden_size
    last = middle if facts.flag("projector_ln_mid") else text_size
    modules = (
        *encoder_modules(audio, "audio_tower"),
        blocks.norms(f"{name}.ln_pre", stacked, bias=False),
        blocks.whole(f"{name}.linear_1", stacked, wide, bias=False),
        blocks.whole(f"{name}.linear_2", middle, text_size, bias=False),
        blocks.norms(f"{name}.ln", last, bias=False),
    )
    return composed(facts, label, model, Tower(modalities=AUDIO, modules=modules))


READERS = {
    "UltravoxModel": read_ultravox,
}
