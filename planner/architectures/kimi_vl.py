"""Kimi-VL: MoonViT for single images, and a language model of DeepSeek's."""

from __future__ import annotations

from planner.architectures.assembly import Label
from planner.architectures.deepseek import read_deepseek_text
from planner.architectures.facts import Facts
from planner.architectures.multimodal import joined, sub_config, text_facts
from planner.architectures.towers.moonvit import moonvit_tower
from planner.model import ModelArchitecture

_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
)


def read_kimi_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Kimi-VL, whose tower and projector nobody quantises.

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
    return joined(facts, label, model, tower, _RENAMES)


READERS = {"KimiVLForConditionalGeneration": read_kimi_vl}
