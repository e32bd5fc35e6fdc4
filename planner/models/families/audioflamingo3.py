"""Audio Flamingo 3: Qwen2-Audio's encoder, and two layers."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import as_whisper, whisper_of_transformers
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/audioflamingo3.py`."""
    audio = as_whisper(sub_config(facts, "audio_config", "audioflamingo3_encoder"))
    layers = ((text_size, audio.integer("d_model")), (text_size, text_size))
    has_bias = facts.flag("projector_bias", default=True)
    biases = ((text_size,),) * (2 if has_bias else 0)
    yield from whisper_of_transformers(audio, "audio_tower")
    yield blocks.replicated("multi_modal_projector", *layers, *biases)


READERS = {
    "AudioFlamingo3ForConditionalGeneration": Composite(_modules, modalities=AUDIO)
}
