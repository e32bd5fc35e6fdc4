"""Kimi-Audio: Qwen2, and Whisper large v3 from a folder of its own."""

from __future__ import annotations

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.towers.sounds import kimi_audio_items
from planner.models.families.whisper import OneStage, encoder_modules


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/kimi_audio.py` KimiAudioForConditionalGeneration."""
    if not facts.mapping("whisper_config"):
        raise facts.unsupported(
            "whisper_config",
            "vLLM reads it from whisper-large-v3/config.json beside config.json.",
        )
    audio = sub_config(facts, "whisper_config", "whisper")
    wide = facts.integer("kimia_adaptor_input_dim", default=5120)
    name = "multi_modal_projector"
    return Tower(
        AUDIO,
        (
            *encoder_modules(audio, "audio_tower"),
            OneStage(name="audio_tower"),
            blocks.two_layers(name, wide, text_size),
            blocks.norms(f"{name}.vq_adaptor_layers_4", text_size, bias=True),
        ),
        items=kimi_audio_items(audio),
    )


READERS = {
    "MoonshotKimiaForCausalLM": Composite(
        _tower, text=Text("qwen2", "Qwen2ForCausalLM", name="")
    )
}
