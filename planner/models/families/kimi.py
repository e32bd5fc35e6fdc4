"""Kimi's models of images: MoonViT, and a language model like DeepSeek's.

Kimi-VL takes single images; Kimi-K2.5 and K2.6 take videos too.
"""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.deepseek import read_deepseek_text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    joined,
    known_as,
    quant_method,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.towers.moonvit import moonvit_3d_tower, moonvit_tower

_VL_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
)

_K25_RENAMES = (
    ("language_model.layers.", "language_model.model.layers."),
    ("mm_projector.proj.0", "mm_projector.linear_1"),
    ("mm_projector.proj.2", "mm_projector.linear_2"),
)


def read_kimi_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Kimi-VL, whose tower and projector are never quantised.

    Source: vLLM 0.33.0 `models/kimi_vl.py` KimiVLForConditionalGeneration;
    `transformers_utils/configs/kimi_vl.py`, which reads the language model's config as
    DeepSeek-V2's.
    """
    model = read_deepseek_text(
        text_facts(facts, "deepseek_v2"),
        Label(name=label.name, architecture="DeepseekV2ForCausalLM"),
    )
    vision = sub_config(facts, "vision_config", "moonvit")
    tower = moonvit_tower(vision, model.hidden_size)
    return joined(facts, label, model, tower, _VL_RENAMES)


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
    "KimiVLForConditionalGeneration": read_kimi_vl,
    "KimiK25ForConditionalGeneration": read_kimi_k25,
}
