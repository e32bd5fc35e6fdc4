"""Cosmos 3 Edge: SigLIP 2, and a decoder like Nemotron-H's."""

from __future__ import annotations

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.decoder import (
    attention,
    attention_shape,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.multimodal import composed, sub_config, text_facts
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.siglip2 import siglip2_vision
from planner.models.layers import Module


def read_cosmos3_edge(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Cosmos 3 Edge. Source: vLLM 0.33.0 `models/cosmos3_edge.py`."""
    model = _edge_text(text_facts(facts, "cosmos3_edge_text"), label)
    vision = sub_config(facts, "vision_config", "cosmos3_edge_vision")
    modules = (
        *siglip2_vision(vision, "visual.encoder"),
        *_edge_merger(facts, vision, model.hidden_size),
    )
    tower = Tower(
        modalities=IMAGE_AND_VIDEO, modules=modules, supports_data_parallel=True
    )
    return composed(facts, label, model, tower)


def _edge_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the blocks: attention with a norm, then an MLP with a norm."""
    shape = attention_shape(facts)
    size = shape.hidden_size
    mlp = plain_mlp(size, facts.integer("intermediate_size"), bias=False)
    pair = (
        LayerKind(
            caches=(kv_of(shape),), modules=(*attention(shape), norms(size, count=1))
        ),
        LayerKind(caches=(), modules=(*mlp, norms(size, count=1))),
    )
    rope = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    frame = Frame(hidden_size=size, rope=rope)
    inner = label.of("Cosmos3EdgeForCausalLM")
    return decoder(facts, inner, frame, pair * facts.integer("num_hidden_layers"))


def _edge_merger(facts: Facts, vision: Facts, columns: int) -> tuple[Module, ...]:
    size, wide = vision.integer("hidden_size"), facts.integer("projector_hidden_size")
    merged = size * vision.integer("spatial_merge_size") ** 2
    name = "visual.projector"
    return (
        blocks.norms(f"{name}.norm", size, bias=True),
        *blocks.unquantised(
            blocks.column(f"{name}.linear_fc1", merged, wide, bias=True),
            blocks.row(f"{name}.linear_fc2", wide, columns, bias=True),
        ),
    )


READERS = {
    "Cosmos3EdgeForConditionalGeneration": read_cosmos3_edge,
}
