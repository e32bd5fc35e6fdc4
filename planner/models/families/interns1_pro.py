"""Intern-S1-Pro: Qwen3-VL's tower, and Qwen3-MoE with long tables."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture
from planner.models.families import moe
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import composed, sub_config, text_facts
from planner.models.families.qwen3_vl import QWEN3_RENAMES
from planner.models.families.towers.qwen_vl import qwen3_vl_tower


def read_interns1_pro(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Intern-S1-Pro: Qwen3-VL's tower, and Qwen3-MoE with long tables.

    Source: vLLM 0.33.0 `models/interns1_pro.py`.
    """
    text = text_facts(facts, "qwen3_moe")
    if (text.mapping("rope_scaling") or text.mapping("rope_parameters")).get(
        "use_fope"
    ):
        raise text.unsupported("rope_scaling", "Fourier position embeddings are not.")
    # Its class has one field for both names, and the later one counts.
    count = text.integer("num_local_experts", "num_experts")
    text = Facts({**text.config, "num_experts": count}, "qwen3_moe")
    inner = label.of("Qwen3MoeForCausalLM")
    model = moe.read_qwen_moe(text, inner)
    vision = sub_config(facts, "vision_config", "qwen3_vl_vision")
    tower = qwen3_vl_tower(vision, deepstack_columns=0)
    return composed(facts, label, model, tower, renames=QWEN3_RENAMES)


READERS = {
    "InternS1ProForConditionalGeneration": read_interns1_pro,
}
