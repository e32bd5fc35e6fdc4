"""Pixtral in Mistral's own format: a tower beside any of its language models."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text, Tie, nested
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.tiles import mistral3_items
from planner.models.layers import Module

_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_encoder."),
    ("model.multi_modal_projector.", "vision_language_adapter."),
)
_MERGES = "patch_merge"


def _tower(facts: Facts, text_size: int) -> Tower:
    """Return Pixtral's tower as params.json describes it.

    Source: vLLM 0.33.0 `models/pixtral.py` PixtralForConditionalGeneration.
    """
    vision = nested(facts, "vision_config")
    longest = vision.integer("max_image_size", "image_size")
    sides = {"image_size": longest, "patch_size": vision.integer("patch_size")}
    merged = vision.integer("spatial_merge_size", default=1)
    merging = Facts({"spatial_merge_size": merged}, "")
    return Tower(
        IMAGE,
        tuple(_modules(vision, text_size, merged)),
        items=mistral3_items(merging, Facts(sides, "")),
        rotates_in_fp32=True,
        has_mistral_format=True,
    )


def _modules(vision: Facts, text_size: int, merged: int) -> Iterator[Module]:
    size = vision.integer("hidden_size")
    yield from _encoder(vision, "vision_encoder")
    if vision.flag("add_pre_mm_projector_layer_norm"):
        yield blocks.norms("pre_mm_projector_norm", size, bias=False)
    if vision.value("mm_projector_id") == _MERGES:
        shape = (size, size * merged**2)
        yield blocks.replicated("patch_merger.merging_layer", shape)
    biases = ((text_size,),) * 2 if vision.flag("adapter_bias", default=True) else ()
    layers = ((text_size, size), (text_size, text_size))
    yield blocks.replicated("vision_language_adapter", *layers, *biases)


def _encoder(facts: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/pixtral.py` VisionTransformer."""
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    size, channels = sizes.width, facts.integer("num_channels")
    convolution = f"{name}.patch_conv"
    yield blocks.convolution(convolution, size, channels, patch, patch, bias=False)
    yield blocks.norms(f"{name}.ln_pre", size, bias=False)
    yield from blocks.repeated(
        f"{name}.transformer.layers",
        sizes.depth,
        blocks.norms("norm", size, count=2, bias=False),
        *blocks.unquantised(
            blocks.qkv("attention.wqkv", size, sizes.heads, bias=False),
            blocks.row("attention.wo", size, size, bias=False),
            *blocks.gated_mlp("feed_forward", size, sizes.mlp, bias=False),
        ),
    )


READERS = {
    "PixtralForConditionalGeneration": Composite(
        _tower, text=Text("", tie=Tie.INNER), renames=_RENAMES
    )
}
