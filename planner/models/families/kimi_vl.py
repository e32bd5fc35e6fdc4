"""Kimi-VL: MoonViT, and a language model like DeepSeek's."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.deepseek import read_deepseek_text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import joined, sub_config, text_facts
from planner.models.families.towers.moonvit import moonvit_tower

_VL_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
)


def read_kimi_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Kimi-VL, whose tower and projector are never quantised.

    Source: vLLM 0.33.0 `models/kimi_vl.py` KimiVLForConditionalGeneration;
    `transformers_utils/configs/kimi_vl.py`, which reads the language model's config as
    DeepSeek-V2's.
    """
    model = read_deepseek_text(
        text_facts(facts, "deepseek_v2"),
        label.of("DeepseekV2ForCausalLM"),
    )
    vision = sub_config(facts, "vision_config", "moonvit")
    tower = moonvit_tower(vision, model.hidden_size)
    return joined(facts, label, model, tower, _VL_RENAMES)


READERS = {
    "KimiVLForConditionalGeneration": read_kimi_vl,
}
