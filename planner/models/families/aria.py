"""Aria: Llama's attention, experts, and images asked for by queries."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.composite import Composite
from planner.models.families.decoder import (
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER
from planner.models.families.multimodal import sub_config, text_facts
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import Depth, idefics_vision
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/aria.py`."""
    vision = sub_config(facts, "vision_config", "idefics3_vision")
    size = vision.integer("hidden_size")
    queries = facts.integer("max_value_projector_patch_to_query_dict")
    name, mlp = f"{PROJECTOR}.cross_attn", f"{PROJECTOR}.feed_forward"
    square, vector = (size, size), (size,)
    yield from idefics_vision(vision, TOWER, Depth(has_post_norm=False))
    yield blocks.replicated(f"{PROJECTOR}.query", (queries, size))
    yield blocks.replicated(name, *(square,) * 8, *(vector,) * 5)
    yield blocks.norms(f"{name}.norms", size, count=3, bias=True)
    yield blocks.column(f"{mlp}.linear_in", size, text_size, bias=False)
    yield blocks.row(f"{mlp}.linear_out", text_size, text_size, bias=False)


def _text(outer: Facts, label: Label) -> ModelArchitecture:
    facts = text_facts(outer, "aria_text")
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
    layer = LayerKind((kv_of(shape),), (*attention(shape), norms(size), *sparse))
    rope = rope_cache(facts, shape.head_size)
    frame = Frame(size, rope, is_tied=False)
    inner = label.of("AriaTextModel")
    return assemble(facts, inner, frame, [layer] * facts.integer("num_hidden_layers"))


READERS = {
    "AriaForConditionalGeneration": Composite(
        _modules, text=_text, renames=RENAMES, supports_pp=False
    )
}
