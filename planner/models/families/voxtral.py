"""Voxtral: Whisper's encoder beside a Mistral, published in Mistral's own format."""

from __future__ import annotations

from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import named, nested, read_language_model
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.towers.facts import Items, if_known
from planner.models.families.whisper import OneStage, encoder_modules

_MOST_SOUNDS = 5
_SAMPLES = 1280
"""Of a token at 16 kHz: 12.5 tokens a second."""


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    audio, text = nested(facts, "audio_config"), nested(facts, "text_config")
    if audio.optional_integer("downsample_factor") is None:
        raise audio.unsupported(
            "downsample_factor",
            "vLLM reads it from params.json, which has to be next to config.json.",
        )
    if text.value("quantization", "moe", "qk_nope_head_dim"):
        raise text.unsupported("quantization", "a dense model without one is.")
    return read_language_model(named(text, "MistralForCausalLM"), label)


def _tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower as params.json describes it.

    Source: vLLM 0.33.0 `models/voxtral.py` VoxtralForConditionalGeneration,
    VoxtralEncoderModel, AudioLanguageAdapter.
    """
    audio, name = nested(facts, "audio_config"), "whisper_encoder"
    factor = audio.integer("downsample_factor")
    size = audio.integer("d_model") * factor
    mel = (1 + audio.integer("window_size") // 2, audio.integer("num_mel_bins"))
    adapter = (text_size, size), (text_size, text_size)
    encoder = f"{name}.whisper_encoder"
    return Tower(
        AUDIO,
        (
            *encoder_modules(audio, encoder, positions_dtype="float32"),
            OneStage(name=name),
            blocks.replicated(f"{name}.mel_filters", mel, dtype="float32"),
            blocks.replicated("audio_language_adapter", *adapter),
        ),
        items=_sounds(factor),
    )


@if_known
def _sounds(factor: int) -> Items:
    """Return a sound as long as a request may be, five of them in a prompt.

    Source: vLLM 0.33.0 `models/voxtral.py` VoxtralProcessingInfo get_max_audio_tokens.
    """
    return (
        MediaItem(
            "audio",
            1,
            patches=factor,
            inputs=_SAMPLES,
            most_parts=1 << 30,
            per_prompt=_MOST_SOUNDS,
        ),
    )


READERS = {"VoxtralForConditionalGeneration": Composite(_tower, text=_text)}
