"""HyperCLOVA X SEED with Qwen2.5-VL's tower and a linear layer after it."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.qwen_vl import qwen2_5_vl_tower, without_input_norm


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/hyperclovax_vision_v2.py`."""
    vision = sub_config(facts, "vision_config", "qwen2_5_vl_vision")
    tower = without_input_norm(qwen2_5_vl_tower(vision))
    columns = vision.integer("out_hidden_size")
    projector = blocks.linear("mm_projector", columns, text_size, bias=True)
    return replace(tower, modules=(*tower.modules, projector))


READERS = {
    "HCXVisionV2ForCausalLM": Composite(
        _tower, text=Text("hyperclovax"), renames=(("vision_model.", "visual."),)
    )
}
