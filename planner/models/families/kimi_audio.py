"""Kimi-Audio: Qwen2, and Whisper large v3 from a folder of its own."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    named,
    read_language_model,
    sub_config,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.towers.sounds import kimi_audio_items
from planner.models.families.whisper import OneStage, encoder_modules


def read_kimi_audio(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Kimi-Audio: Qwen2, and Whisper large v3 from a folder of its own.

    Source: vLLM 0.33.0 `models/kimi_audio.py` KimiAudioForConditionalGeneration.
    """
    text = named(facts, "Qwen2ForCausalLM", "qwen2")
    model = read_language_model(text, label)
    if not facts.mapping("whisper_config"):
        raise facts.unsupported(
            "whisper_config",
            "vLLM reads it from whisper-large-v3/config.json beside config.json.",
        )
    audio = sub_config(facts, "whisper_config", "whisper")
    wide = facts.integer("kimia_adaptor_input_dim", default=5120)
    size, name = model.hidden_size, "multi_modal_projector"
    tower = Tower(
        modalities=AUDIO,
        modules=(
            *encoder_modules(audio, "audio_tower"),
            OneStage(name="audio_tower"),
            blocks.replicated(name, (size, wide), (size,), (size, size), (size,)),
            blocks.norms(f"{name}.vq_adaptor_layers_4", size, bias=True),
        ),
        items=kimi_audio_items(audio),
    )
    return composed(facts, label, model, tower)


READERS = {
    "MoonshotKimiaForCausalLM": read_kimi_audio,
}
