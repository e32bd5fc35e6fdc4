"""Qwen2-Audio."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    known_as,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.qwen2_vl import LAYERS
from planner.models.families.towers.audio import qwen2_audio_tower


def read_qwen2_audio(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen2-Audio. Source: vLLM 0.33.0 `models/qwen2_audio.py`."""
    text = text_facts(facts, "qwen2")
    inner = label.of("Qwen2ForCausalLM")
    model = llama.read(text, inner, style=llama.STYLES["Qwen2"])
    audio = sub_config(facts, "audio_config", "qwen2_audio_encoder")
    whole = with_towers(
        model,
        (qwen2_audio_tower(audio, model.hidden_size),),
        layer_prefix=LAYERS,
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


READERS = {
    "Qwen2AudioForConditionalGeneration": read_qwen2_audio,
}
