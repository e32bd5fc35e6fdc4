"""EXAONE 4.5: Qwen2.5-VL's tower, in which several heads share keys."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.qwen3_vl import QWEN3_RENAMES
from planner.models.families.towers.qwen_vl import qwen2_5_vl_tower
from planner.models.layers import QKVParallelLinear


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/exaone4_5.py`."""
    vision = sub_config(facts, "vision_config", "exaone4_5_vision")
    tower = qwen2_5_vl_tower(vision)
    kv_heads = vision.integer("num_key_value_heads")
    modules = tuple(
        replace(module, num_kv_heads=kv_heads)
        if isinstance(module, QKVParallelLinear)
        else module
        for module in tower.modules
    )
    return replace(tower, modules=modules)


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    return read_language_model(text_facts(facts, "exaone4"), label)


READERS = {
    "Exaone4_5_ForConditionalGeneration": Composite(
        _tower, text=_text, renames=QWEN3_RENAMES
    )
}
