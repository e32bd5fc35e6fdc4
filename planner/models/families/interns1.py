"""InternVL and Intern-S1 in the format of Transformers."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import Tower
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.internvl import TEXT, items_of, projector
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.facts import sides
from planner.models.layers import Module

_RENAMES = (
    ("lm_head.", "language_model.lm_head."),
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_tower."),
    ("model.multi_modal_projector.", "multi_modal_projector."),
)


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/interns1.py` InternS1ForConditionalGeneration."""
    vision = sub_config(facts, "vision_config", "internvl_vision")
    connector = projector("multi_modal_projector", facts, vision, text_size)
    return Tower(
        IMAGE_AND_VIDEO,
        (*_intern_vit(vision), connector),
        items=items_of(facts, vision),
    )


def _intern_vit(facts: Facts) -> Iterator[Module]:
    """Yield the tower, of which nothing is quantised and only the MLPs are cut.

    Source: vLLM 0.33.0 `models/interns1_vit.py` InternS1VisionModel.
    """
    size, name = facts.integer("hidden_size"), "vision_tower.embeddings"
    image, patch = sides(facts, "image_size"), sides(facts, "patch_size")
    tokens = ((size,),) * (2 if facts.flag("use_mask_token") else 1)
    yield blocks.replicated(name, *tokens)
    if facts.flag("use_absolute_position_embeddings"):
        positions = (image[0] // patch[0]) * (image[1] // patch[1]) + 1
        yield blocks.replicated(f"{name}.position", (positions, size))
    patches = f"{name}.patch_embeddings.projection"
    channels = facts.integer("num_channels")
    yield blocks.convolution(patches, size, channels, *patch, bias=True)
    layers, depth = "vision_tower.encoder.layer", facts.integer("num_hidden_layers")
    yield from blocks.repeated(layers, depth, *_layer(facts))
    if not facts.flag("use_mean_pooling"):
        yield blocks.norms("vision_tower.layernorm", size, bias=True)


def _layer(facts: Facts) -> Iterator[Module]:
    size, bias = facts.integer("hidden_size"), facts.flag("attention_bias")
    wide = facts.integer("intermediate_size")
    norm_bias = facts.value("norm_type") == "layer_norm"
    attention = [(size, size)] * 4 + [(size,)] * (4 if bias else 1)
    if facts.flag("use_qk_norm"):
        attention += [(size,), (size,)]
    yield blocks.replicated("attention", *attention)
    yield from blocks.unquantised(*blocks.plain_mlp("mlp.fc1", "mlp.fc2", size, wide))
    yield blocks.norms("layernorm", size, count=2, bias=norm_bias)
    yield blocks.replicated("lambda", (size,), (size,))


READERS = dict.fromkeys(
    ("InternVLForConditionalGeneration", "InternS1ForConditionalGeneration"),
    Composite(_tower, text=TEXT, renames=_RENAMES),
)
