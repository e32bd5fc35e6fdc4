"""BLIP-2: a vision model, a Q-Former and OPT."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.qformer import qformer
from planner.models.layers import Module


def read_blip2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return BLIP-2. Source: vLLM 0.33.0 `models/blip2.py`."""
    kind = facts.mapping("text_config").get("model_type") or "opt"
    text = text_facts(facts, str(kind))
    if not text.value("architectures") and kind == "opt":
        text = named(text, "OPTForCausalLM", "opt")
    model = read_language_model(text, label)
    vision = sub_config(facts, "vision_config", "blip_2_vision_model")
    between = sub_config(facts, "qformer_config", "blip_2_qformer")
    size = between.integer("hidden_size")
    modules = (
        *_blip_vision(vision),
        blocks.replicated("query_tokens", (1, facts.integer("num_query_tokens"), size)),
        *qformer(between, "qformer"),
        blocks.replicated(
            "language_projection", (model.hidden_size, size), (model.hidden_size,)
        ),
    )
    tower = Tower(modalities=("image",), modules=modules)
    return composed(facts, label, model, tower)


def _blip_vision(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/blip.py` BlipVisionModel."""
    size, patch = facts.integer("hidden_size"), facts.integer("patch_size")
    positions = (facts.integer("image_size") // patch) ** 2 + 1
    name, heads = "vision_model", facts.integer("num_attention_heads")
    modules: list[Module] = [
        blocks.replicated(f"{name}.embeddings", (size,), (positions, size)),
        blocks.convolution(
            f"{name}.embeddings.patch_embedding", size, 3, patch, patch, bias=True
        ),
        blocks.norms(f"{name}.post_layernorm", size, bias=True),
    ]
    for index in range(facts.integer("num_hidden_layers")):
        layer = f"{name}.encoder.layers.{index}"
        bias = facts.flag("qkv_bias")
        modules += [
            blocks.qkv(f"{layer}.self_attn.qkv", size, heads, bias=bias),
            blocks.row(f"{layer}.self_attn.projection", size, size, bias=True),
            *blocks.plain_mlp(
                f"{layer}.mlp.fc1",
                f"{layer}.mlp.fc2",
                size,
                facts.integer("intermediate_size"),
            ),
            blocks.norms(f"{layer}.layer_norm", size, count=2, bias=True),
        ]
    return tuple(modules)


READERS = {"Blip2ForConditionalGeneration": read_blip2}
