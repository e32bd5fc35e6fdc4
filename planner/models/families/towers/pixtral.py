"""Pixtral's tower in Transformers' format."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module


def pixtral_vision(facts: Facts, name: str, num_layers: int) -> Iterator[Module]:
    """Yield Pixtral's vision model with this many of its layers.

    Source: vLLM 0.33.0 `models/pixtral.py` PixtralHFVisionModel.
    """
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    size, heads, channels = sizes.width, sizes.heads, facts.integer("num_channels")
    if num_layers > sizes.depth:
        raise facts.unsupported(
            "num_hidden_layers", f"features of layer {num_layers} are requested."
        )
    half_head = (facts.optional_integer("head_dim") or size // heads) // 2
    convolution, positions = f"{name}.patch_conv", f"{name}.patch_positional_embedding"
    yield blocks.convolution(convolution, size, channels, patch, patch, bias=False)
    yield blocks.norms(f"{name}.ln_pre", size, bias=False)
    frequencies = (half_head,)
    yield blocks.replicated(positions, frequencies, frequencies, dtype="float32")
    qkv, shards = "attention.qkv_proj", blocks.QKV_SHARDS
    yield from blocks.repeated(
        f"{name}.transformer.layers",
        num_layers,
        blocks.norms("norm", size, count=2, bias=False),
        blocks.qkv(qkv, size, heads, bias=False, shards=shards),
        blocks.row("attention.o_proj", size, size, bias=False),
        *blocks.gated_mlp("feed_forward", size, sizes.mlp, bias=False),
    )
