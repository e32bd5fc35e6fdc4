"""Llama 4 with images."""

from __future__ import annotations

from planner.architectures.assembly import Label
from planner.architectures.facts import Facts
from planner.architectures.llama4 import read_llama4_text
from planner.architectures.multimodal import (
    known_as,
    sub_config,
    text_facts,
    with_towers,
)
from planner.architectures.towers.llama4 import llama4_towers
from planner.model import ModelArchitecture


def read_llama4(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Llama 4 with its tower.

    Source: vLLM 0.33.0 `models/mllama4.py` Llama4ForConditionalGeneration.
    """
    model = read_llama4_text(text_facts(facts, "llama4_text"), label)
    vision = sub_config(facts, "vision_config", "llama4_vision_model")
    whole = with_towers(
        model,
        llama4_towers(vision, model.hidden_size),
        layer_prefix="language_model.model.layers",
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


READERS = {"Llama4ForConditionalGeneration": read_llama4}
