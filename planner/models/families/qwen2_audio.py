"""Qwen2-Audio."""

from __future__ import annotations

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers.audio import qwen2_audio_tower


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/qwen2_audio.py`."""
    audio = sub_config(facts, "audio_config", "qwen2_audio_encoder")
    return qwen2_audio_tower(audio, text_size)


READERS = {
    "Qwen2AudioForConditionalGeneration": Composite(
        _tower, text=Text("qwen2", "Qwen2ForCausalLM")
    )
}
