"""Phi-4 with SigLIP 2."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, TOWER
from planner.models.families.multimodal import (
    composed,
    named,
    read_language_model,
    sub_config,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.siglip2 import siglip2_vision


def read_phi4_siglip(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Phi-4 with SigLIP 2. Source: vLLM 0.33.0 `models/phi4siglip.py`."""
    vision = sub_config(facts, "vision_config", "siglip2_vision_model")
    text = named(facts, "Phi3ForCausalLM", "phi3")
    model = read_language_model(text, label)
    size = facts.integer("mm_hidden_size")
    modules = (
        *siglip2_vision(
            vision,
            TOWER,
            num_layers=vision.integer("num_hidden_layers") - 1,
            has_post_norm=False,
        ),
        blocks.column(f"{PROJECTOR}.linear_1", size, model.hidden_size, bias=True),
        blocks.row(
            f"{PROJECTOR}.linear_2", model.hidden_size, model.hidden_size, bias=True
        ),
    )
    return composed(facts, label, model, Tower(modalities=IMAGE, modules=modules))


READERS = {
    "Phi4ForCausalLMV": read_phi4_siglip,
}
