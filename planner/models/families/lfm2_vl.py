"""LFM2-VL: SigLIP 2 and LFM2."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import MediaItem, Tower
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.facts import RGB
from planner.models.families.towers.siglip2 import siglip2_vision
from planner.models.passes import Attention, TowerPass, block_pass

_TOKENS = 256
"""Most tokens of an image where a config does not say."""


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/lfm2_vl.py`."""
    vision = sub_config(facts, "vision_config", "siglip2_vision_model")
    joined = facts.integer("downsample_factor") ** 2
    merged = vision.integer("hidden_size") * joined
    wide, bias = facts.integer("projector_hidden_size"), facts.flag("projector_bias")
    norm = blocks.norms(f"{PROJECTOR}.layer_norm", merged, bias=True)
    modules = (
        *siglip2_vision(vision, TOWER),
        *((norm,) if facts.flag("projector_use_layernorm") else ()),
        blocks.linear(f"{PROJECTOR}.linear_1", merged, wide, bias=bias),
        blocks.linear(f"{PROJECTOR}.linear_2", wide, text_size, bias=bias),
    )
    tokens = facts.optional_integer("max_image_tokens") or _TOKENS
    patches = tokens * joined
    inputs = patches * RGB * vision.integer("patch_size") ** 2
    image = MediaItem("image", tokens, patches=patches, inputs=inputs)
    return Tower(
        IMAGE,
        modules,
        items=(image,),
        supports_data_parallel=True,
        forward=_pass(vision, patches),
    )


def _pass(vision: Facts, patches: int) -> TowerPass:
    """Return SigLIP 2's widest points, of images whose patches were put together.

    Source: vLLM 0.33.0 `models/lfm2_siglip2.py` Siglip2EncoderLayer,
    `models/lfm2_vl.py` image_pixels_to_features, get_image_size_with_most_features.
    """
    size, heads = vision.integers("hidden_size", "num_attention_heads")
    attention = Attention(num_heads=heads, head_size=size // heads, length=patches)
    passed = block_pass(size, vision.integer("intermediate_size"), beside=4)
    return replace(passed, attention=attention, input_copies=2)


READERS = {"Lfm2VlForConditionalGeneration": Composite(_tower, renames=RENAMES)}
