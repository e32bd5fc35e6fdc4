"""Cohere Compass: Qwen3-VL's tower, and Cohere's decoder with windows."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, Placement, assemble
from planner.models.families.composite import composed, sub_config, text_facts
from planner.models.families.decoder import (
    attention,
    attention_shape,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import typed_ropes
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.qwen_vl import qwen3_vl_tower
from planner.models.families.windows import FULL, SLIDING


def read_cohere_compass(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Cohere Compass. Source: vLLM 0.33.0 `models/cohere_compass.py`."""
    if facts.value("tie_word_embeddings") is False:
        raise facts.unsupported("tie_word_embeddings", "vLLM asserts a tied head.")
    text = text_facts(facts, "cohere_compass_text")
    vision = sub_config(facts, "vision_config", "cohere_compass_vision")
    model = _text(text, label.of("CohereForCausalLM"))
    tower = qwen3_vl_tower(vision, deepstack_columns=model.hidden_size)
    modules = tuple(m for m in tower.modules if not m.name.endswith("input_norm"))
    tower = replace(
        tower, modalities=IMAGE, modules=modules, reads_raw_pixels_since=None
    )
    levels = len(vision.value("deepstack_visual_indexes") or ())
    return composed(facts, label, replace(model, deepstack_layers=levels), tower)


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    has_bias = facts.flag("attention_bias")
    shape = attention_shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    size, num_layers = shape.hidden_size, facts.integer("num_hidden_layers")
    types = facts.value("layer_types") or [FULL] * num_layers
    window = facts.optional_integer("sliding_window")
    modules = (
        *attention(shape),
        *gated_mlp(size, facts.integer("intermediate_size")),
        norms(size, count=1),
    )
    full = LayerKind((kv_of(shape),), modules)
    windowed = replace(kv_of(shape), sliding_window=window)
    sliding = LayerKind((windowed,), modules)
    rotated = {kind for kind, own in facts.mapping("rope_parameters").items() if own}
    tables = typed_ropes(
        facts, [kind for kind in types if kind in rotated], shape.head_size
    )
    frame = Frame(
        hidden_size=size,
        # The table ends with max_model_len.
        every_stage=tuple(replace(table, ends_with_length=True) for table in tables),
        placement=Placement.EVERYWHERE,
        is_tied=True,
    )
    plain = facts.having(rope_parameters=None)
    layers = [sliding if kind == SLIDING else full for kind in types[:num_layers]]
    return assemble(plain, label, frame, layers)


READERS = {"CohereCompassForConditionalGeneration": read_cohere_compass}
