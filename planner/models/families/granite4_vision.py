"""Granite 4 Vision: SigLIP, and a Q-Former for each layer that takes its features."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text, siglip_of
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import Depth
from planner.models.families.towers.qformer import qformer
from planner.models.families.towers.tiles import granite4_vision_items
from planner.models.layers import Module, TokenBuffer

_SPATIAL_PROJECTORS = 4
_QFORMER = {
    "cross_attention_frequency": 1,
    "intermediate_size": 3072,
    "num_hidden_layers": 1,
}


def _levels(facts: Facts) -> int:
    levels = facts.value("deepstack_layer_map")
    if not isinstance(levels, list) or not facts.value("downsample_rate"):
        raise facts.unsupported("deepstack_layer_map", "a list of layers is.")
    return len(levels)


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/granite4_vision.py`."""
    vision, encoder = siglip_of(facts, "vision_tower", Depth(has_post_norm=False))
    levels, rate = _levels(facts), str(facts.value("downsample_rate"))
    projector = tuple(_projector(vision, text_size, rate))
    return Tower(
        IMAGE,
        (
            *encoder,
            blocks.replicated("image_newline", (text_size,)),
            *blocks.repeated("layerwise_projectors", levels, *projector),
            *blocks.repeated("spatial_projectors", _SPATIAL_PROJECTORS, *projector),
        ),
        items=granite4_vision_items(facts, vision, Fraction(rate)),
    )


def _buffers(facts: Facts, text_size: int) -> tuple[Module, ...]:
    count = _levels(facts) + len(facts.value("spatial_target_layers") or ())
    return (TokenBuffer("deepstack_buffers", text_size, count=count),)


def _projector(vision: Facts, text_size: int, rate: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/granite4_vision.py` WindowQFormerDownsampler."""
    size = vision.integer("hidden_size")
    queries, window = (int(side) ** 2 for side in rate.split("/"))
    layers = {**_QFORMER, "hidden_size": size, "encoder_hidden_size": size}
    yield from qformer(Facts(layers, ""), "qformer")
    yield blocks.norms("norm", size, bias=True)
    yield blocks.replicated("", (queries, size), (window, size))
    yield blocks.linear("out_linear", size, text_size, bias=True)


READERS = {
    "Granite4VisionForConditionalGeneration": Composite(
        _tower, text=Text("granite", "GraniteForCausalLM"), beside=_buffers
    )
}
