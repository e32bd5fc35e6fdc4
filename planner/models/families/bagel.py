"""Bagel's half that understands images: SigLIP and Qwen2."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    named,
    quant_method,
    read_language_model,
    sub_config,
    text_facts,
    with_mm_prefix,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import siglip_vision

_KEPT = {27: 26}  # Bagel's checkpoint lacks the last of SigLIP's layers


def read_bagel(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Bagel's half that understands images: SigLIP and Qwen2.

    Of SigLIP's 27 layers its checkpoint has 26; its table of positions stays on the
    CPU.

    Source: vLLM 0.33.0 `models/bagel.py`.
    """
    text = text_facts(facts, "qwen2", name="llm_config")
    inner = named(text, "Qwen2ForCausalLM", "qwen2")
    model = with_mm_prefix(read_language_model(inner, label))
    if not facts.flag("visual_und", default=True):
        raise facts.unsupported("visual_und", "a model that sees is.")
    vision = sub_config(facts, "vit_config", "siglip_vision_model")
    layers = vision.integer("num_hidden_layers")
    seen = Facts(
        {**vision.config, "num_hidden_layers": _KEPT.get(layers, layers)},
        vision.model_type,
    )
    size, text_size = vision.integer("hidden_size"), model.hidden_size
    modules = (
        *siglip_vision(seen, "vit_model", quant_method=quant_method(facts)),
        blocks.column("connector.fc1", size, text_size, bias=True),
        blocks.row("connector.fc2", text_size, text_size, bias=True),
    )
    return composed(facts, label, model, Tower(modalities=IMAGE, modules=modules))


READERS = {
    "BagelForConditionalGeneration": read_bagel,
}
