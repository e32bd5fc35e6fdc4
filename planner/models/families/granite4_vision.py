"""Granite 4 Vision: SigLIP, and a Q-Former for each layer that takes its features."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    quant_method,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import Depth, siglip_vision
from planner.models.families.towers.qformer import qformer
from planner.models.families.towers.tiles import granite4_vision_items
from planner.models.layers import Module, TokenBuffer

_SPATIAL_PROJECTORS = 4
_QFORMER = {
    "cross_attention_frequency": 1,
    "intermediate_size": 3072,
    "num_hidden_layers": 1,
}


def read_granite4_vision(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Granite 4 Vision.

    Source: vLLM 0.33.0 `models/granite4_vision.py`.
    """
    text = text_facts(facts, "granite")
    named = {**text.config, "architectures": ["GraniteForCausalLM"]}
    model = read_language_model(Facts(named, "granite"), label)
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    levels, spatial = facts.value("deepstack_layer_map"), _SPATIAL_PROJECTORS
    if not isinstance(levels, list) or not facts.value("downsample_rate"):
        raise facts.unsupported("deepstack_layer_map", "a list of layers is.")
    names = [f"layerwise_projectors.{index}" for index in range(len(levels))]
    names += [f"spatial_projectors.{index}" for index in range(spatial)]
    size, rate = model.hidden_size, str(facts.value("downsample_rate"))
    tower = Tower(
        modalities=("image",),
        modules=(
            *siglip_vision(
                vision,
                "vision_tower",
                Depth(has_post_norm=False),
                quant_method=quant_method(facts),
            ),
            blocks.replicated("image_newline", (size,)),
            *(m for name in names for m in _projector(vision, name, size, rate)),
        ),
        items=granite4_vision_items(facts, vision, Fraction(rate)),
    )
    buffers = TokenBuffer(
        name="deepstack_buffers",
        columns=size,
        count=len(levels) + len(facts.value("spatial_target_layers") or ()),
    )
    whole = composed(facts, label, model, tower)
    return replace(whole, every_stage=(*whole.every_stage, buffers))


def _projector(
    vision: Facts, name: str, text_size: int, rate: str
) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/granite4_vision.py` WindowQFormerDownsampler."""
    size = vision.integer("hidden_size")
    queries, window = (int(side) ** 2 for side in rate.split("/"))
    layers = {**_QFORMER, "hidden_size": size, "encoder_hidden_size": size}
    return (
        *qformer(Facts(layers, ""), f"{name}.qformer"),
        blocks.norms(f"{name}.norm", size, bias=True),
        blocks.replicated(name, (queries, size), (window, size)),
        blocks.replicated(f"{name}.out_linear", (text_size, size), (text_size,)),
    )


READERS = {"Granite4VisionForConditionalGeneration": read_granite4_vision}
