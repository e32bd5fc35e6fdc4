"""BLIP-2's Q-Former: queries that look at a tower's features, Transformers' layers."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module


def qformer(facts: Facts, name: str) -> Iterator[Module]:
    """Yield the layers, of which every rank holds all.

    Source: vLLM 0.33.0 `models/blip2.py` Blip2QFormerModel.
    """
    size, wide = facts.integers("hidden_size", "intermediate_size")
    every, outside = facts.integers("cross_attention_frequency", "encoder_hidden_size")
    yield blocks.norms(f"{name}.layernorm", size, bias=True)
    for index in range(facts.integer("num_hidden_layers")):
        layer = f"{name}.encoder.layer.{index}"
        yield _attention(f"{layer}.attention", size, size)
        yield blocks.two_layers(f"{layer}.mlp", size, size, between=wide)
        yield blocks.norms(f"{layer}.output_query.LayerNorm", size, bias=True)
        yield blocks.norms(f"{layer}.attention.LayerNorm", size, bias=True)
        if index % every == 0:
            cross = f"{layer}.crossattention"
            yield _attention(cross, size, outside)
            yield blocks.norms(f"{cross}.LayerNorm", size, bias=True)


def _attention(name: str, size: int, kv_size: int) -> Module:
    shapes = ((size, size), (size, kv_size), (size, kv_size), (size, size))
    return blocks.replicated(name, *shapes, *((size,),) * 4)
