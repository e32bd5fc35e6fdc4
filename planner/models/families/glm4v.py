"""GLM-4V: EVA's tower beside ChatGLM."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    return label.readers["ChatGLMModel"](facts, label)


def _modules(facts: Facts, size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/glm4v.py` GLM4VForCausalLM, EVA2CLIPModel."""
    vision = Facts(facts.mapping("vision_config"), "eva2_clip")
    name = "transformer.vision"
    seen, patch = vision.integers("hidden_size", "patch_size")
    wide, channels = facts.integer("ffn_hidden_size"), vision.integer("in_channels")
    embedding, linear = f"{name}.patch_embedding", f"{name}.linear_proj"
    positions = vision.integer("num_positions")
    gates = "gate_proj", "dense_h_to_4h"
    yield blocks.convolution(
        f"{embedding}.proj", seen, channels, patch, patch, bias=True
    )
    yield blocks.replicated(f"{embedding}.positions", (1, seen), (positions, seen))
    yield blocks.whole(f"{linear}.linear_proj", size, size, bias=False)
    yield blocks.norms(f"{linear}.norm1", size, bias=True)
    merged = f"{linear}.merged_proj"
    yield blocks.column(merged, size, wide, wide, bias=False, shards=gates)
    yield blocks.row(f"{linear}.dense_4h_to_h", wide, size, bias=False)
    yield blocks.convolution(f"{name}.conv", size, seen, 2, 2, bias=True)
    yield blocks.replicated(f"{name}.marks", (size,), (size,))
    sizes = blocks.Sizes(
        seen,
        vision.integer("num_heads"),
        vision.integer("intermediate_size"),
        vision.integer("num_hidden_layers"),
    )
    parts = blocks.Parts(
        norms="layernorm", qkv="attention.query_key_value", out="attention.dense"
    )
    yield from blocks.layers(f"{name}.transformer.layers", sizes, parts)


READERS = {"GLM4VForCausalLM": Composite(_modules, text=_text, prefix="")}
