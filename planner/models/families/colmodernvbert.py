"""ModernVBERT: SigLIP's tower before ModernBERT."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.bert import linear32
from planner.models.families.facts import Facts
from planner.models.families.modernbert import read_modernbert
from planner.models.families.multimodal import (
    composed,
    quant_method,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import siglip_vision
from planner.models.layers import Module


def read_modern_vbert(facts: Facts, label: Label) -> ModelArchitecture:
    """Return ModernVBERT: SigLIP's tower before ModernBERT.

    Source: vLLM 0.33.0 `models/colmodernvbert.py`.
    """
    inner = facts
    if facts.mapping("vlm_config"):
        inner = Facts({**facts.config, **facts.mapping("vlm_config")}, "modernvbert")
    text = text_facts(inner, "modernbert")
    own = label.of("ModernBertModel")
    vision = sub_config(inner, "vision_config", "siglip_vision_model")
    factor = inner.integer("pixel_shuffle_factor")
    columns = facts.integer("embedding_dim", default=128)

    def head(_facts: Facts, size: int) -> tuple[Module, ...]:
        return (linear32((columns, size), (columns,)),)

    model = read_modernbert(text, own, head=head)
    shuffled = vision.integer("hidden_size") * factor**2
    modules = (
        *siglip_vision(vision, "vision_model", quant_method=quant_method(facts)),
        blocks.replicated("connector.proj", (model.hidden_size, shuffled)),
    )
    tower = Tower(modalities=IMAGE, modules=modules)
    return composed(facts, label, model, tower, prefix="")


READERS = {
    "ColModernVBertForRetrieval": read_modern_vbert,
    "ModernVBertModel": read_modern_vbert,
}
