"""Step 3 with images."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.layers import Module


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/step3_vl.py`."""
    vision = sub_config(facts, "vision_config", "step3_vision_encoder")
    size, out = vision.integers("hidden_size", "output_hidden_size")
    text_size, bias = facts.integer("hidden_size"), facts.flag("projector_bias")
    modules = (
        *_encoder(vision),
        blocks.convolution("vit_downsampler", out, size, 2, 2, bias=True),
        blocks.convolution("vit_downsampler2", 2 * out, out, 3, 3, bias=True),
        blocks.linear("vit_large_projector", 2 * out, text_size, bias=bias),
    )
    return Tower(IMAGE, modules, supports_data_parallel=True)


def _encoder(facts: Facts) -> Iterator[Module]:
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    size, channels = sizes.width, facts.integer("num_channels")
    positions = (facts.integer("image_size") // patch) ** 2 + 1
    name = "vision_model.embeddings"
    yield blocks.replicated(name, (size,), (positions, size))
    patches = f"{name}.patch_embedding"
    yield blocks.convolution(patches, size, channels, patch, patch, bias=True)
    yield blocks.replicated(f"{name}.position_ids", (positions,), dtype="int64")
    layers = blocks.layers(
        "vision_model.transformer.layers", sizes, blocks.Parts(norms_last=True)
    )
    yield from blocks.unquantised(*layers)


READERS = {
    "Step3VLForConditionalGeneration": Composite(
        _tower, text=Text("step3_text", "Step3TextForCausalLM")
    )
}
