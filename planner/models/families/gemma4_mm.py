"""Gemma 4 with images and sounds."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.gemma4 import read_gemma4_text
from planner.models.families.multimodal import (
    known_as,
    quant_method,
    sub_config,
    text_facts,
    with_mm_prefix,
    with_towers,
)
from planner.models.families.towers.gemma4 import audio_tower, vision_tower
from planner.models.layers import Module, TokenBuffer

LAYERS = "language_model.model.layers"

RENAMES = (
    ("model.vision_tower", "vision_tower"),
    ("model.embed_vision", "embed_vision"),
    ("model.audio_tower.", "audio_tower."),
    ("model.embed_audio.", "embed_audio."),
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
    ("model", "language_model.model"),
)


def read_gemma4(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Gemma 4 with its towers.

    Source: vLLM 0.33.0 `models/gemma4_mm.py` Gemma4ForConditionalGeneration;
    `transformers_utils/model_arch_config_convertor.py` Gemma4ModelArchConfigConvertor.
    """
    text = text_facts(facts, "gemma4_text")
    model = read_gemma4_text(text, label)
    if text.value("use_bidirectional_attention") == "vision":
        model = with_mm_prefix(model)
    method = quant_method(facts)
    vision = sub_config(facts, "vision_config", "gemma4_vision")
    towers = [vision_tower(vision, model.hidden_size, method)]
    if facts.value("audio_config") is not None:
        audio = sub_config(facts, "audio_config", "gemma4_audio")
        towers.append(audio_tower(audio, model.hidden_size, method))
    whole = with_towers(
        model,
        tuple(towers),
        layer_prefix=LAYERS,
        prefix_renames=RENAMES,
        head_prefix="language_model.",
    )
    every_stage = (*whole.every_stage, *step_buffer(text, len(model.layers)))
    return known_as(replace(whole, every_stage=every_stage), facts, label)


def step_buffer(text: Facts, num_layers: int) -> tuple[Module, ...]:
    """Return the buffer of a step's embeddings for each layer."""
    inner = text.optional_integer("hidden_size_per_layer_input")
    if not inner:
        return ()
    return (TokenBuffer(name="per_layer_embeddings", columns=num_layers * inner),)


READERS = {
    "Gemma4ForConditionalGeneration": read_gemma4,
}
