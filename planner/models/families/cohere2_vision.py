"""Cohere 2 with images."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER
from planner.models.families.multimodal import (
    composed,
    quant_method,
    read_language_model,
    sub_config,
    text_of,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import siglip_vision


def read_cohere2_vision(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Cohere 2 with images. Source: vLLM 0.33.0 `models/cohere2_vision.py`."""
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    model = read_language_model(text_of(facts), label)
    merged = vision.integer("hidden_size") * facts.integer("downsample_factor") ** 2
    half = facts.integer("alignment_intermediate_size") // 2
    modules = (
        *siglip_vision(vision, TOWER, quant_method=quant_method(facts)),
        blocks.column(f"{PROJECTOR}.linear_1", merged, half, half, bias=True),
        blocks.row(f"{PROJECTOR}.linear_2", half, model.hidden_size, bias=True),
    )
    tower = Tower(modalities=IMAGE, modules=modules)
    return composed(facts, label, model, tower, renames=RENAMES)


READERS = {
    "Cohere2VisionForConditionalGeneration": read_cohere2_vision,
}
