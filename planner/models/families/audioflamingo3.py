"""Audio Flamingo 3: Qwen2-Audio's encoder, and two layers."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.glmasr import as_whisper
from planner.models.families.multimodal import (
    composed,
    read_language_model,
    sub_config,
    text_of,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import qwen2_audio_tower
from planner.models.families.towers.blocks import AUDIO


def read_audio_flamingo3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Audio Flamingo 3: Qwen2-Audio's encoder, and two layers.

    Source: vLLM 0.33.0 `models/audioflamingo3.py`.
    """
    model = read_language_model(text_of(facts), label)
    audio = as_whisper(sub_config(facts, "audio_config", "audioflamingo3_encoder"))
    size, text_size = audio.integer("d_model"), model.hidden_size
    encoder = qwen2_audio_tower(audio, text_size)
    name, bias = "multi_modal_projector", facts.flag("projector_bias", default=True)
    layers = ((text_size, size), (text_size, text_size))
    modules = (
        *(m for m in encoder.modules if not m.name.startswith(name)),
        blocks.replicated(name, *layers, *((text_size,),) * (2 if bias else 0)),
    )
    return composed(facts, label, model, Tower(modalities=AUDIO, modules=modules))


READERS = {
    "AudioFlamingo3ForConditionalGeneration": read_audio_flamingo3,
}
