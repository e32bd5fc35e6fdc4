"""Aria: Llama's attention, experts, and images asked for by queries."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.decoder import (
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER
from planner.models.families.multimodal import composed, sub_config, text_facts
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import Depth, idefics_vision


def read_aria(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Aria: Llama's attention, experts, and images asked for by queries.

    Source: vLLM 0.33.0 `models/aria.py`.
    """
    vision = sub_config(facts, "vision_config", "idefics3_vision")
    text = text_facts(facts, "aria_text")
    model = _aria_text(text, label)
    size, text_size = vision.integer("hidden_size"), model.hidden_size
    queries = facts.integer("max_value_projector_patch_to_query_dict")
    name = f"{PROJECTOR}.cross_attn"
    square, vector = (size, size), (size,)
    modules = (
        *idefics_vision(vision, TOWER, Depth(has_post_norm=False)),
        blocks.replicated(f"{PROJECTOR}.query", (queries, size)),
        blocks.replicated(name, *(square,) * 8, *(vector,) * 5),
        blocks.norms(f"{name}.norms", size, count=3, bias=True),
        blocks.column(
            f"{PROJECTOR}.feed_forward.linear_in", size, text_size, bias=False
        ),
        blocks.row(
            f"{PROJECTOR}.feed_forward.linear_out", text_size, text_size, bias=False
        ),
    )
    tower = Tower(modalities=IMAGE, modules=modules)
    whole = composed(facts, label, model, tower, renames=RENAMES)
    return replace(whole, supports_pp=False)


def _aria_text(facts: Facts, label: Label) -> ModelArchitecture:
    has_bias = facts.flag("attention_bias")
    shape = attention_shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    size, width = shape.hidden_size, facts.integer("intermediate_size")
    sparse = experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=facts.integer("moe_num_experts"),
            top_k=facts.integer("moe_topk"),
            intermediate_size=width,
            shared_intermediate_size=width * facts.integer("moe_num_shared_experts"),
            shared_bias=facts.flag("mlp_bias"),
        )
    )
    layer = LayerKind(
        caches=(kv_of(shape),), modules=(*attention(shape), norms(size), *sparse)
    )
    rope = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    frame = Frame(hidden_size=size, rope=rope, is_tied=False)
    inner = label.of("AriaTextModel")
    return decoder(facts, inner, frame, [layer] * facts.integer("num_hidden_layers"))


READERS = {
    "AriaForConditionalGeneration": read_aria,
}
