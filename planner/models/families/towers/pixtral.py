"""Pixtral's tower in Transformers' format."""

from __future__ import annotations

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import QKV
from planner.models.layers import Module


def pixtral_vision(facts: Facts, name: str, num_layers: int) -> tuple[Module, ...]:
    """Return Pixtral's vision model with this many of its layers.

    Source: vLLM 0.33.0 `models/pixtral.py` PixtralHFVisionModel.
    """
    size, mlp_size = facts.integer("hidden_size"), facts.integer("intermediate_size")
    heads, patch = facts.integer("num_attention_heads"), facts.integer("patch_size")
    if num_layers > facts.integer("num_hidden_layers"):
        raise facts.unsupported(
            "num_hidden_layers", f"features of layer {num_layers} are requested."
        )
    half_head = (facts.optional_integer("head_dim") or size // heads) // 2
    modules: list[Module] = [
        blocks.convolution(
            f"{name}.patch_conv",
            size,
            facts.integer("num_channels"),
            patch,
            patch,
            bias=False,
        ),
        blocks.norms(f"{name}.ln_pre", size, bias=False),
        blocks.replicated(
            f"{name}.patch_positional_embedding",
            (half_head,),
            (half_head,),
            dtype="float32",
        ),
    ]
    for index in range(num_layers):
        layer = f"{name}.transformer.layers.{index}"
        modules += [
            blocks.norms(f"{layer}.norm", size, count=2, bias=False),
            blocks.qkv(
                f"{layer}.attention.qkv_proj", size, heads, bias=False, shards=QKV
            ),
            blocks.row(f"{layer}.attention.o_proj", size, size, bias=False),
            *blocks.gated_mlp(f"{layer}.feed_forward", size, mlp_size, bias=False),
        ]
    return tuple(modules)
