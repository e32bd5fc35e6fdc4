"""OpenCUA: Qwen2.5-VL's tower, whose pixels the CPU normalises, and Qwen2."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.qwen2_vl import QWEN2_RENAMES
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.qwen_vl import qwen2_5_vl_tower, without_input_norm


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/opencua.py`, which hands the tower no input_norm."""
    vision = sub_config(facts, "vision_config", "qwen2_5_vl_vision")
    return replace(without_input_norm(qwen2_5_vl_tower(vision)), modalities=IMAGE)


READERS = {
    "OpenCUAForConditionalGeneration": Composite(
        _tower, text=Text("qwen2", "Qwen2ForCausalLM"), renames=QWEN2_RENAMES
    )
}
