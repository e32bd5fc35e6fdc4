"""Cosmos 3 Edge: SigLIP 2, and a decoder like Nemotron-H's."""

from __future__ import annotations

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.decoder import (
    attention,
    attention_shape,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.multimodal import sub_config, text_facts
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.siglip2 import siglip2_vision


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/cosmos3_edge.py`."""
    vision = sub_config(facts, "vision_config", "cosmos3_edge_vision")
    size, wide = vision.integer("hidden_size"), facts.integer("projector_hidden_size")
    merged, name = size * vision.integer("spatial_merge_size") ** 2, "visual.projector"
    mlp = (
        blocks.column(f"{name}.linear_fc1", merged, wide, bias=True),
        blocks.row(f"{name}.linear_fc2", wide, text_size, bias=True),
    )
    return Tower(
        IMAGE_AND_VIDEO,
        (
            *siglip2_vision(vision, "visual.encoder"),
            blocks.norms(f"{name}.norm", size, bias=True),
            *blocks.unquantised(*mlp),
        ),
        supports_data_parallel=True,
    )


def _text(outer: Facts, label: Label) -> ModelArchitecture:
    """Return the blocks: attention with a norm, then an MLP with a norm."""
    facts = text_facts(outer, "cosmos3_edge_text")
    shape = attention_shape(facts)
    size = shape.hidden_size
    mlp = plain_mlp(size, facts.integer("intermediate_size"), bias=False)
    norm = norms(size, count=1)
    pair = (
        LayerKind((kv_of(shape),), (*attention(shape), norm)),
        LayerKind((), (*mlp, norm)),
    )
    rope = rope_cache(facts, shape.head_size)
    frame = Frame(size, rope)
    inner = label.of("Cosmos3EdgeForCausalLM")
    return decoder(facts, inner, frame, pair * facts.integer("num_hidden_layers"))


READERS = {"Cosmos3EdgeForConditionalGeneration": Composite(_tower, text=_text)}
