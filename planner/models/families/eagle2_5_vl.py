"""Eagle 2.5: SigLIP, and InternVL's projector."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    quant_method,
    read_language_model,
    sub_config,
    text_of,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import Depth, siglip_vision
from planner.models.layers import Module


def read_eagle2_5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Eagle 2.5. Source: vLLM 0.33.0 `models/eagle2_5_vl.py`."""
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    model = read_language_model(text_of(facts), label)
    chosen = facts.value("select_layer")
    layer = -1 if chosen is None else int(chosen)
    count = layer + 1 + (vision.integer("num_hidden_layers") if layer < 0 else 0)
    modules = (
        *siglip_vision(
            vision,
            "vision_model",
            Depth(num_layers=count),
            quant_method=quant_method(facts),
        ),
        *shuffled_mlp(facts, vision, model.hidden_size),
    )
    return composed(facts, label, model, Tower(modalities=IMAGE, modules=modules))


def shuffled_mlp(facts: Facts, vision: Facts, text_size: int) -> tuple[Module, ...]:
    """Return InternVL's projector: patches joined by four, a norm, two layers."""
    ratio = facts.number("downsample_ratio", default=0.5)
    merged = vision.integer("hidden_size") * int(1 / ratio) ** 2
    return (
        blocks.norms("mlp1.0", merged, bias=True),
        blocks.linear("mlp1.1", merged, text_size, bias=True),
        blocks.linear("mlp1.3", text_size, text_size, bias=True),
    )


READERS = {
    "Eagle2_5_VLForConditionalGeneration": read_eagle2_5,
}
