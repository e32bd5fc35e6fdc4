"""BLIP-2: a vision model, a Q-Former and OPT."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.assembly import Reader
from planner.models.families.composite import Composite, Text, sub_config
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module


# BLIP-2's Q-Former: queries that look at a tower's features, Transformers' layers.
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


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/blip2.py`."""
    vision = sub_config(facts, "vision_config", "blip_2_vision_model")
    between = sub_config(facts, "qformer_config", "blip_2_qformer")
    size, queries = between.integer("hidden_size"), facts.integer("num_query_tokens")
    yield from _vision(vision, "vision_model")
    yield blocks.replicated("query_tokens", (1, queries, size))
    yield from qformer(between, "qformer")
    yield blocks.linear("language_projection", size, text_size, bias=True)


def _vision(facts: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/blip.py` BlipVisionModel."""
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    size, positions = sizes.width, (facts.integer("image_size") // patch) ** 2 + 1
    embedding = f"{name}.embeddings.patch_embedding"
    yield blocks.replicated(f"{name}.embeddings", (size,), (positions, size))
    yield blocks.convolution(embedding, size, 3, patch, patch, bias=True)
    yield blocks.norms(f"{name}.post_layernorm", size, bias=True)
    parts = blocks.Parts(
        qkv="self_attn.qkv",
        out="self_attn.projection",
        qkv_bias=facts.flag("qkv_bias"),
        norms_last=True,
    )
    yield from blocks.layers(f"{name}.encoder.layers", sizes, parts)


READERS: dict[str, Reader] = {
    "Blip2ForConditionalGeneration": Composite(_modules, text=Text("opt")),
}
