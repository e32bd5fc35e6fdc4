"""BLIP-2's Q-Former: queries that look at a tower's features, Transformers' layers."""

from __future__ import annotations

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module


def qformer(facts: Facts, name: str) -> tuple[Module, ...]:
    """Return the layers, of which every rank holds all.

    Source: vLLM 0.33.0 `models/blip2.py` Blip2QFormerModel.
    """
    size, wide = facts.integers("hidden_size", "intermediate_size")
    every = facts.integer("cross_attention_frequency")
    outside = facts.integer("encoder_hidden_size")
    modules: list[Module] = [blocks.norms(f"{name}.layernorm", size, bias=True)]
    for index in range(facts.integer("num_hidden_layers")):
        layer = f"{name}.encoder.layer.{index}"
        modules += [
            _attention(f"{layer}.attention", size, size),
            blocks.replicated(
                f"{layer}.mlp", (wide, size), (wide,), (size, wide), (size,)
            ),
            blocks.norms(f"{layer}.output_query.LayerNorm", size, bias=True),
            blocks.norms(f"{layer}.attention.LayerNorm", size, bias=True),
        ]
        if index % every == 0:
            cross = f"{layer}.crossattention"
            modules.append(_attention(cross, size, outside))
            modules.append(blocks.norms(f"{cross}.LayerNorm", size, bias=True))
    return tuple(modules)


def _attention(name: str, size: int, kv_size: int) -> Module:
    shapes = ((size, size), (size, kv_size), (size, kv_size), (size, size))
    return blocks.replicated(name, *shapes, *((size,),) * 4)
