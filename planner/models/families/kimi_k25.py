"""Kimi-K2.5: MoonViT for images and short pieces of video, and DeepSeek-V3."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.deepseek import read_deepseek_text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    known_as,
    quant_method,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.towers.moonvit import moonvit_3d_tower

_K25_RENAMES = (
    ("language_model.layers.", "language_model.model.layers."),
    ("mm_projector.proj.0", "mm_projector.linear_1"),
    ("mm_projector.proj.2", "mm_projector.linear_2"),
)


def read_kimi_k25(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Kimi-K2.5 with its tower, which compressed-tensors does not quantise.

    Source: vLLM 0.33.0 `models/kimi_k25.py` KimiK25ForConditionalGeneration.
    """
    model = read_deepseek_text(text_facts(facts, "deepseek_v3"), label)
    tower = moonvit_3d_tower(
        sub_config(facts, "vision_config", "kimi_k25_vision"),
        model.hidden_size,
        is_quantizable=quant_method(facts) != "compressed-tensors",
    )
    whole = with_towers(
        model,
        (tower,),
        layer_prefix="language_model.model.layers",
        prefix_renames=_K25_RENAMES,
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


READERS = {
    "KimiK25ForConditionalGeneration": read_kimi_k25,
}
