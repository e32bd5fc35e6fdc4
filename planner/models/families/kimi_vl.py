"""Kimi-VL: MoonViT, and a language model like DeepSeek's."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.deepseek import read_deepseek_text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config, text_facts
from planner.models.families.towers.moonvit import moonvit_tower

_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
)


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `transformers_utils/configs/kimi_vl.py`."""
    text = text_facts(facts, "deepseek_v2")
    return read_deepseek_text(text, label.of("DeepseekV2ForCausalLM"))


def _tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower, which like its projector is never quantised.

    Source: vLLM 0.33.0 `models/kimi_vl.py` KimiVLForConditionalGeneration.
    """
    return moonvit_tower(sub_config(facts, "vision_config", "moonvit"), text_size)


READERS = {
    "KimiVLForConditionalGeneration": Composite(
        text=_text, tower=_tower, renames=_RENAMES
    )
}
