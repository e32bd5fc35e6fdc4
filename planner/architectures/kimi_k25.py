"""Kimi-K2.5 and K2.6: DeepSeek's language model with MoonViT."""

from __future__ import annotations

from planner.architectures.assembly import Label
from planner.architectures.deepseek import read_deepseek_text
from planner.architectures.facts import Facts
from planner.architectures.multimodal import (
    known_as,
    quant_method,
    sub_config,
    text_facts,
    with_towers,
)
from planner.architectures.towers.moonvit import moonvit_3d_tower
from planner.model import ModelArchitecture

RENAMES = (
    ("language_model.layers.", "language_model.model.layers."),
    ("mm_projector.proj.0", "mm_projector.linear_1"),
    ("mm_projector.proj.2", "mm_projector.linear_2"),
)


def read_kimi_k25(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Kimi-K2.5 with its tower, which compressed-tensors leaves as it is.

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
        prefix_renames=RENAMES,
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


READERS = {"KimiK25ForConditionalGeneration": read_kimi_k25}
