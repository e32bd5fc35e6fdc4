"""Kimi-K2.5: MoonViT for images and short pieces of video, and DeepSeek-V3."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import quant_method, sub_config, text_facts
from planner.models.families.towers.moonvit import moonvit_3d_tower

_RENAMES = (
    ("language_model.layers.", "language_model.model.layers."),
    ("mm_projector.proj.0", "mm_projector.linear_1"),
    ("mm_projector.proj.2", "mm_projector.linear_2"),
)


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    text = text_facts(facts, "deepseek_v3")
    return label.readers["DeepseekV3ForCausalLM"](text, label)


def _tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower, which compressed-tensors does not quantise.

    Source: vLLM 0.33.0 `models/kimi_k25.py` KimiK25ForConditionalGeneration.
    """
    is_quantizable = quant_method(facts) != "compressed-tensors"
    vision = sub_config(facts, "vision_config", "kimi_k25_vision")
    return moonvit_3d_tower(vision, text_size, is_quantizable=is_quantizable)


READERS = {
    "KimiK25ForConditionalGeneration": Composite(_tower, text=_text, renames=_RENAMES)
}
