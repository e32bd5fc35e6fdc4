"""MOSS's transcriber: Whisper's encoder and Qwen3."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.whisper import encoder_modules
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/moss_transcribe_diarize.py`."""
    wide = facts.integer("adaptor_input_dim")
    whisper = sub_config(facts, "audio_config", "whisper")
    yield from encoder_modules(whisper, "whisper_encoder")
    yield blocks.two_layers("vq_adaptor", wide, text_size)
    yield blocks.norms("vq_adaptor.norm", text_size, bias=True)


READERS = {
    "MossTranscribeDiarizeForConditionalGeneration": Composite(
        _modules, text=Text("qwen3", "Qwen3ForCausalLM"), modalities=AUDIO
    )
}
