"""Intern-S1-Pro: Qwen3-VL's tower, and Qwen3-MoE with long tables."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.qwen3_vl import QWEN3_RENAMES
from planner.models.families.towers.qwen_vl import qwen3_vl_tower


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    text = text_facts(facts, "qwen3_moe")
    if (text.mapping("rope_scaling") or text.mapping("rope_parameters")).get(
        "use_fope"
    ):
        raise text.unsupported("rope_scaling", "Fourier position embeddings are not.")
    # Its class has one field for both names, and the later one counts.
    count = text.integer("num_local_experts", "num_experts")
    own = Facts({**text.config, "num_experts": count}, "qwen3_moe")
    return read_language_model(named(own, "Qwen3MoeForCausalLM"), label)


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/interns1_pro.py`."""
    vision = sub_config(facts, "vision_config", "qwen3_vl_vision")
    return qwen3_vl_tower(vision, deepstack_columns=0)


READERS = {
    "InternS1ProForConditionalGeneration": Composite(
        _tower, text=_text, renames=QWEN3_RENAMES
    )
}
