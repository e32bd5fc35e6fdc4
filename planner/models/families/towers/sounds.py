"""The longest sounds of families, each as the family's processor makes it."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import MediaItem
from planner.models.families.facts import Facts
from planner.models.families.towers.grids import Items, if_known
from planner.models.families.towers.sizing import AnySize, PaddedSound


@if_known
def gemma4_audio_items() -> Items:
    """Return 30 seconds of sound: 750 tokens.

    Source: vLLM 0.33.0 `models/gemma4_mm.py` (audio_seq_length).
    """
    return (MediaItem("audio", 750, patches=750, inputs=3000 * 128),)


@if_known
def whisper_items(facts: Facts) -> Items:
    """Return 30 seconds of sound. Source: vLLM 0.33.0 `models/whisper.py`."""
    positions = facts.integer("max_source_positions")
    sound = _sound(facts, tokens=positions, patches=positions, per_prompt=1)
    return (replace(sound, sizing=AnySize()),)


@if_known
def qwen2_audio_items(facts: Facts) -> Items:
    """Return 30 seconds of sound: 3,000 steps, halved twice.

    Source: vLLM 0.33.0 `models/qwen2_audio.py` Qwen2AudioProcessingInfo.
    """
    return (replace(_sound(facts, tokens=750, patches=1500), sizing=PaddedSound()),)


@if_known
def kimi_audio_items(facts: Facts) -> Items:
    """Return 30 seconds of sound: 390 tokens for 375 rows, one sound in a prompt.

    Source: vLLM 0.33.0 `models/kimi_audio.py` _get_feat_extract_output_lengths,
    KimiAudioMultiModalProcessor.
    """
    sound = _sound(facts, tokens=390, patches=1500, per_prompt=1)
    return (replace(sound, embeddings=375),)


@if_known
def qwen3_asr_items(facts: Facts) -> Items:
    """Return 30 seconds of sound: 13 tokens of each 100 steps.

    Source: vLLM 0.33.0 `models/qwen3_asr.py` Qwen3ASRDummyInputsBuilder.
    """
    return (_sound(facts, tokens=390, patches=390),)


def _sound(
    facts: Facts, *, tokens: int, patches: int, per_prompt: int | None = None
) -> MediaItem:
    return MediaItem(
        "audio",
        tokens,
        patches=patches,
        inputs=3000 * facts.integer("num_mel_bins"),
        per_prompt=per_prompt,
    )
