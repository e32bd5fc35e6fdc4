"""LFM2-VL: SigLIP 2 and LFM2."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER
from planner.models.families.multimodal import (
    composed,
    read_language_model,
    sub_config,
    text_of,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.facts import RGB
from planner.models.families.towers.siglip2 import siglip2_vision
from planner.models.passes import Attention, TowerPass, block_pass

_LFM2_TOKENS = 256
"""Most tokens of an image where a config does not say."""


def read_lfm2_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LFM2-VL. Source: vLLM 0.33.0 `models/lfm2_vl.py`."""
    vision = sub_config(facts, "vision_config", "siglip2_vision_model")
    model = read_language_model(text_of(facts), label)
    merged = vision.integer("hidden_size") * facts.integer("downsample_factor") ** 2
    wide, bias = facts.integer("projector_hidden_size"), facts.flag("projector_bias")
    norm = blocks.norms(f"{PROJECTOR}.layer_norm", merged, bias=True)
    modules = (
        *siglip2_vision(vision, TOWER),
        *((norm,) if facts.flag("projector_use_layernorm") else ()),
        blocks.linear(f"{PROJECTOR}.linear_1", merged, wide, bias=bias),
        blocks.linear(f"{PROJECTOR}.linear_2", wide, model.hidden_size, bias=bias),
    )
    tokens = facts.optional_integer("max_image_tokens") or _LFM2_TOKENS
    patches = tokens * facts.integer("downsample_factor") ** 2
    inputs = patches * RGB * vision.integer("patch_size") ** 2
    image = MediaItem(modality="image", tokens=tokens, patches=patches, inputs=inputs)
    tower = Tower(
        modalities=IMAGE,
        modules=modules,
        items=(image,),
        supports_data_parallel=True,
        forward=_lfm2_pass(vision, patches),
    )
    return composed(facts, label, model, tower, renames=RENAMES)


def _lfm2_pass(vision: Facts, patches: int) -> TowerPass:
    """Return SigLIP 2's widest points, of images whose patches were put together.

    Source: vLLM 0.33.0 `models/lfm2_siglip2.py` Siglip2EncoderLayer,
    `models/lfm2_vl.py` image_pixels_to_features, get_image_size_with_most_features.
    """
    size, heads = vision.integer("hidden_size"), vision.integer("num_attention_heads")
    attention = Attention(num_heads=heads, head_size=size // heads, length=patches)
    passed = block_pass(size, vision.integer("intermediate_size"), beside=4)
    return replace(passed, attention=attention, input_copies=2)


READERS = {
    "Lfm2VlForConditionalGeneration": read_lfm2_vl,
}
