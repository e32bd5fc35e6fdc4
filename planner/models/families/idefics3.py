"""Idefics 3 and SmolVLM."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.llava import read_language_model
from planner.models.families.multimodal import (
    inner_type,
    known_as,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.towers import tiles
from planner.models.families.towers.clip import encoder_pass, idefics_vision
from planner.models.layers import Part, ReplicatedLinear


def read_idefics3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Idefics 3 or SmolVLM, which vLLM does not split into stages.

    Source: vLLM 0.33.0 `models/idefics3.py` Idefics3ForConditionalGeneration,
    `models/smolvlm.py`.
    """
    if inner_type(facts, "llama") != "llama":
        raise facts.unsupported("text_config", "Llama is, as in vLLM's class.")
    vision_type = f"{facts.model_type}_vision"
    vision = sub_config(facts, "vision_config", vision_type)
    text = text_facts(facts, "llama")
    # The class builds Llama, whatever name the inner config has for it.
    text = Facts({**text.config, "architectures": None}, "llama")
    model = read_language_model(text, label)
    shuffled = vision.integer("hidden_size") * facts.integer("scale_factor") ** 2
    connector = ReplicatedLinear(
        name="model.connector.modality_projection.proj",
        part=Part.TOWERS,
        input_size=shuffled,
        output_sizes=(model.hidden_size,),
    )
    tower = Tower(
        modalities=("image",),
        modules=(*idefics_vision(vision, "model.vision_model"), connector),
        items=tiles.idefics3_items(vision, facts.integer("scale_factor")),
        forward=encoder_pass(vision),
    )
    whole = with_towers(model, (tower,), layer_prefix="model.text_model.layers")
    return replace(known_as(whole, facts, label), supports_pp=False)


READERS = {
    "Idefics3ForConditionalGeneration": read_idefics3,
    "SmolVLMForConditionalGeneration": read_idefics3,
}
