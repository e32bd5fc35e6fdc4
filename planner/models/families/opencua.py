"""OpenCUA and HyperCLOVA X with Qwen2.5-VL's tower, whose pixels the CPU normalises."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.hyperclovax_vision_v2 import without_input_norm
from planner.models.families.multimodal import (
    composed,
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.qwen2_vl import QWEN2_RENAMES
from planner.models.families.towers.qwen_vl import qwen2_5_vl_tower


def read_opencua(facts: Facts, label: Label) -> ModelArchitecture:
    """Return OpenCUA: Qwen2.5-VL's tower, whose pixels the CPU normalises.

    Source: vLLM 0.33.0 `models/opencua.py`, which hands the tower no input_norm.
    """
    text = text_facts(facts, "qwen2")
    text = named(text, "Qwen2ForCausalLM", "qwen2")
    model = read_language_model(text, label)
    tower = qwen2_5_vl_tower(sub_config(facts, "vision_config", "qwen2_5_vl_vision"))
    images = replace(without_input_norm(tower), modalities=("image",))
    return composed(facts, label, model, images, renames=QWEN2_RENAMES)


READERS = {
    "OpenCUAForConditionalGeneration": read_opencua,
}
