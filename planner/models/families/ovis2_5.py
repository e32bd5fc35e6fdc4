"""Ovis 2.5 and 2.6: images become words of a vocabulary of their own."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.siglip2 import siglip2_vision
from planner.models.layers import Module

_INDICATORS = 4
"""Words for an image's ends, which the tower's head does not predict."""


def _modules(facts: Facts, _text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/ovis2_5.py`."""
    vision = sub_config(facts, "vit_config", "siglip2_navit")
    if facts.mapping("vit_config").get("model_type") not in (None, "siglip2_navit"):
        raise facts.unsupported("vit_config", "SigLIP 2 is.")
    words, stride = facts.integer("visual_vocab_size"), vision.integer("hidden_stride")
    merged, predicted = vision.integer("hidden_size") * stride**2, words - _INDICATORS
    yield from _navit(vision)
    yield blocks.replicated("visual_tokenizer.head.0", (predicted, merged))
    yield blocks.norms("visual_tokenizer.head.1", predicted, bias=True)
    yield blocks.replicated("vte", (words, facts.integer("hidden_size")))


def _navit(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/siglip2navit.py` Siglip2NavitModel."""
    patches = facts.value("num_patches")
    if not isinstance(patches, int) or patches <= 0:
        patches = (facts.integer("image_size") // facts.integer("patch_size")) ** 2
    sized = Facts({**facts.config, "num_patches": patches}, facts.model_type)
    for module in siglip2_vision(sized, "visual_tokenizer.vit"):
        is_table = "position_embedding" in module.name
        if facts.flag("preserve_original_pe") or not is_table:
            yield module
    head_size = facts.integer("hidden_size") // facts.integer("num_attention_heads")
    name = "visual_tokenizer.vit.vision_model.encoder.rotary_pos_emb"
    yield blocks.inverse_frequencies(name, head_size)


READERS = dict.fromkeys(
    ("Ovis2_5", "Ovis2_6ForCausalLM", "Ovis2_6_MoeForCausalLM"),
    Composite(
        _modules,
        text=Text("qwen3", other_name="llm_config"),
        modalities=IMAGE_AND_VIDEO,
        prefix="llm.",
    ),
)
