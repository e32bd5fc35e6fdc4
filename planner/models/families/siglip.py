"""SigLIP with both its halves, for embeddings."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.clip import text_encoder
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    quant_method,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import siglip_vision
from planner.models.layers import Module, Part, Replicated


def read_siglip(facts: Facts, label: Label) -> ModelArchitecture:
    """Return SigLIP with both its halves.

    Source: vLLM 0.33.0 `models/siglip.py` SiglipEmbeddingModel.
    """
    text = text_facts(facts, "siglip_text_model")
    size = text.integer("hidden_size")
    columns = text.integer("projection_size", default=size)
    head = Replicated(
        name="head", part=Part.CLASSIFIER, shapes=((columns, size), (columns,))
    )
    model = text_encoder(text, label, is_causal=False, head=(head,))
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    modules = siglip_vision(vision, "vision", quant_method=quant_method(facts))
    if vision.flag("vision_use_head", default=True):
        modules = (*modules, *_pooling_head(vision))
    tower = Tower(modalities=IMAGE, modules=modules)
    whole = composed(facts, label, model, tower, prefix="text_model.")
    return replace(whole, is_encoder_only=True)


def _pooling_head(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/siglip.py` SiglipMultiheadAttentionPoolingHead."""
    size, name = facts.integer("hidden_size"), "vision_model.head"
    return (
        blocks.replicated(
            name, (size,), (3 * size, size), (3 * size,), (size, size), (size,)
        ),
        blocks.norms(f"{name}.layernorm", size, bias=True),
        *blocks.plain_mlp(
            f"{name}.mlp.fc1",
            f"{name}.mlp.fc2",
            size,
            facts.integer("intermediate_size"),
        ),
    )


READERS = {
    "SiglipModel": read_siglip,
}
