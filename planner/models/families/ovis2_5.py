"""Ovis 2.5 and 2.6: images become words of a vocabulary of their own."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.siglip2 import siglip2_vision
from planner.models.layers import Module

_INDICATORS = 4
"""Words for an image's ends, which the tower's head does not predict."""


def read_ovis2_5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Ovis 2.5 or 2.6. Source: vLLM 0.33.0 `models/ovis2_5.py`."""
    name = "llm_config" if facts.mapping("llm_config") else "text_config"
    kind = str(facts.mapping(name).get("model_type") or "qwen3")
    model = read_language_model(text_facts(facts, kind, name=name), label)
    vision = sub_config(facts, "vit_config", "siglip2_navit")
    if facts.mapping("vit_config").get("model_type") not in (None, "siglip2_navit"):
        raise facts.unsupported("vit_config", "SigLIP 2 is.")
    size, words = vision.integer("hidden_size"), facts.integer("visual_vocab_size")
    merged = size * vision.integer("hidden_stride") ** 2
    predicted = words - _INDICATORS
    modules = (
        *_navit(vision),
        blocks.replicated("visual_tokenizer.head.0", (predicted, merged)),
        blocks.norms("visual_tokenizer.head.1", predicted, bias=True),
        blocks.replicated("vte", (words, facts.integer("hidden_size"))),
    )
    tower = Tower(modalities=IMAGE_AND_VIDEO, modules=modules)
    return composed(facts, label, model, tower, prefix="llm.")


def _navit(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/siglip2navit.py` Siglip2NavitModel."""
    patches = facts.value("num_patches")
    if not isinstance(patches, int) or patches <= 0:
        patches = (facts.integer("image_size") // facts.integer("patch_size")) ** 2
    sized = Facts({**facts.config, "num_patches": patches}, facts.model_type)
    modules = tuple(siglip2_vision(sized, "visual_tokenizer.vit"))
    if not facts.flag("preserve_original_pe"):
        modules = tuple(m for m in modules if "position_embedding" not in m.name)
    head_size = facts.integer("hidden_size") // facts.integer("num_attention_heads")
    count = -(-(head_size // 2) // 2)
    name = "visual_tokenizer.vit.vision_model.encoder.rotary_pos_emb.inv_freq"
    return (*modules, blocks.replicated(name, (count,), dtype="float32"))


READERS = {
    "Ovis2_5": read_ovis2_5,
    "Ovis2_6ForCausalLM": read_ovis2_5,
    "Ovis2_6_MoeForCausalLM": read_ovis2_5,
}
