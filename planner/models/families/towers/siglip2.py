"""SigLIP 2 for images of any shape, as Liquid's and Phi's models have it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import ALL_LAYERS, Depth
from planner.models.layers import Module


def siglip2_vision(
    facts: Facts, name: str, depth: Depth = ALL_LAYERS
) -> Iterator[Module]:
    """Yield the vision model, with fewer layers than it has where configured.

    Source: vLLM 0.33.0 `models/lfm2_siglip2.py` Siglip2Model.
    """
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    size, name = sizes.width, f"{name}.vision_model"
    embedding, pixels = f"{name}.embeddings", facts.integer("num_channels") * patch**2
    patches = blocks.whole(f"{embedding}.patch_embedding", pixels, size, bias=True)
    yield replace(patches, is_quantizable=False)
    positions = (facts.integer("num_patches"), size)
    yield blocks.replicated(f"{embedding}.position_embedding", positions)
    if depth.num_layers is not None:
        sizes = replace(sizes, depth=depth.num_layers)
    yield from blocks.layers(f"{name}.encoder.layers", sizes)
    if depth.has_post_norm is not False:
        yield blocks.norms(f"{name}.post_layernorm", size, bias=True)
