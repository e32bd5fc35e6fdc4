"""Idefics 3 and SmolVLM."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    inner_type,
    known_as,
    sub_config,
    with_towers,
)
from planner.models.families.towers import tiles
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import encoder_pass, idefics_vision
from planner.models.layers import Part, ReplicatedLinear


def _read(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a model that vLLM does not split into stages.

    The class builds Llama, whatever name the inner config has for it.

    Source: vLLM 0.33.0 `models/idefics3.py` Idefics3ForConditionalGeneration,
    `models/smolvlm.py`.
    """
    if inner_type(facts, "llama") != "llama":
        raise facts.unsupported("text_config", "Llama is, as in vLLM's class.")
    vision = sub_config(facts, "vision_config", f"{facts.model_type}_vision")
    model = Text("llama", "LlamaForCausalLM")(facts, label)
    scale = facts.integer("scale_factor")
    connector = ReplicatedLinear(
        "model.connector.modality_projection.proj",
        Part.TOWERS,
        vision.integer("hidden_size") * scale**2,
        (model.hidden_size,),
    )
    tower = Tower(
        IMAGE,
        (*idefics_vision(vision, "model.vision_model"), connector),
        items=tiles.idefics3_items(vision, scale),
        forward=encoder_pass(vision),
    )
    whole = with_towers(model, (tower,), layer_prefix="model.text_model.layers")
    return replace(known_as(whole, facts, label), supports_pp=False)


READERS = dict.fromkeys(
    ("Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration"), _read
)
