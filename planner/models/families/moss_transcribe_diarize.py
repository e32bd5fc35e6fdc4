"""MOSS's transcriber: Whisper's encoder and Qwen3."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.whisper import encoder_modules


def read_moss_transcribe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MOSS's transcriber: Whisper's encoder and Qwen3.

    Source: vLLM 0.33.0 `models/moss_transcribe_diarize.py`.
    """
    text = text_facts(facts, "qwen3")
    inner = named(text, "Qwen3ForCausalLM", "qwen3")
    model = read_language_model(inner, label)
    audio = sub_config(facts, "audio_config", "whisper")
    size = model.hidden_size
    wide = facts.integer("adaptor_input_dim")
    modules = (
        *encoder_modules(audio, "whisper_encoder"),
        blocks.replicated("vq_adaptor", (size, wide), (size,), (size, size), (size,)),
        blocks.norms("vq_adaptor.norm", size, bias=True),
    )
    return composed(facts, label, model, Tower(modalities=AUDIO, modules=modules))


READERS = {
    "MossTranscribeDiarizeForConditionalGeneration": read_moss_transcribe,
}
