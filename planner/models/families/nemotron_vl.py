"""Nemotron's embeddings of images: SigLIP and Llama in both directions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label, classification_head, num_labels
from planner.models.families.eagle2_5_vl import shuffled_mlp
from planner.models.families.embedding import pooled
from planner.models.families.facts import Facts
from planner.models.families.llama import LLAMA
from planner.models.families.llama import read as read_llama
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


def read_llama_nemotron_vl(
    facts: Facts, label: Label, *, is_classifier: bool = False
) -> ModelArchitecture:
    """Return Nemotron's embeddings of images: SigLIP and Llama in both directions.

    Source: vLLM 0.33.0 `models/nemotron_vl.py` LlamaNemotronVLForEmbedding.
    """
    name = "llm_config" if facts.mapping("llm_config") else "text_config"
    text = text_facts(facts, "llama", name=name)
    text = Facts({**text.config, "is_causal": False}, "llama")
    inner = label.of("LlamaForCausalLM")
    model = read_llama(text, inner, style=LLAMA)
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    modules = (
        *siglip_vision(vision, "vision_model", quant_method=quant_method(facts)),
        *shuffled_mlp(facts, vision, model.hidden_size),
    )
    tower = Tower(modalities=IMAGE, modules=modules)
    score: tuple[Module, ...] = ()
    if is_classifier:
        score = classification_head(model.hidden_size, num_labels(text))
    whole = composed(facts, label, pooled(model, inner, score, is_whole=True), tower)
    input_norm = blocks.input_norm("input_norm")
    return replace(whole, every_stage=(*whole.every_stage, input_norm))


READERS = {
    "LlamaNemotronVLModel": read_llama_nemotron_vl,
    "LlamaNemotronVLForSequenceClassification": partial(
        read_llama_nemotron_vl, is_classifier=True
    ),
}
