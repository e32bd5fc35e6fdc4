"""Kimi-VL: MoonViT, and a language model like DeepSeek's."""

from __future__ import annotations

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers.moonvit import moonvit_tower

_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
)


def _tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower, which like its projector is never quantised.

    Source: vLLM 0.33.0 `models/kimi_vl.py` KimiVLForConditionalGeneration;
    `transformers_utils/configs/kimi_vl.py` (the text as DeepSeek-V2's).
    """
    return moonvit_tower(sub_config(facts, "vision_config", "moonvit"), text_size)


READERS = {
    "KimiVLForConditionalGeneration": Composite(
        _tower, text=Text("deepseek_v2", "DeepseekV2ForCausalLM"), renames=_RENAMES
    )
}
