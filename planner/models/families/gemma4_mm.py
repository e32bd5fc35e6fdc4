"""Gemma 4 with images and sounds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.gemma4 import read_gemma4_text
from planner.models.families.multimodal import (
    quant_method,
    sub_config,
    text_facts,
    with_mm_prefix,
)
from planner.models.families.towers.gemma4 import audio_tower, vision_tower
from planner.models.layers import Module, TokenBuffer

RENAMES = (
    ("model.vision_tower", "vision_tower"),
    ("model.embed_vision", "embed_vision"),
    ("model.audio_tower.", "audio_tower."),
    ("model.embed_audio.", "embed_audio."),
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
    ("model", "language_model.model"),
)


def read_text(facts: Facts, label: Label, *, kind: str) -> ModelArchitecture:
    """Return Gemma 4's decoder, whose images attend in both directions if it says so.

    Source: vLLM 0.33.0 `transformers_utils/model_arch_config_convertor.py`
    Gemma4ModelArchConfigConvertor.
    """
    text = text_facts(facts, kind)
    model = read_gemma4_text(text, label)
    if text.value("use_bidirectional_attention") == "vision":
        return with_mm_prefix(model)
    return model


def step_buffer(facts: Facts, _text_size: int, *, kind: str) -> tuple[Module, ...]:
    """Return the buffer of a step's embeddings for each layer."""
    text = text_facts(facts, kind)
    inner = text.optional_integer("hidden_size_per_layer_input")
    if not inner:
        return ()
    columns = text.integer("num_hidden_layers") * inner
    return (TokenBuffer("per_layer_embeddings", columns),)


def _towers(facts: Facts, text_size: int) -> Iterator[Tower]:
    """Source: vLLM 0.33.0 `models/gemma4_mm.py` Gemma4ForConditionalGeneration."""
    method = quant_method(facts)
    vision = sub_config(facts, "vision_config", "gemma4_vision")
    yield vision_tower(vision, text_size, method)
    if facts.value("audio_config") is not None:
        audio = sub_config(facts, "audio_config", "gemma4_audio")
        yield audio_tower(audio, text_size, method)


READERS = {
    "Gemma4ForConditionalGeneration": Composite(
        _towers,
        text=partial(read_text, kind="gemma4_text"),
        beside=partial(step_buffer, kind="gemma4_text"),
        renames=RENAMES,
    )
}
