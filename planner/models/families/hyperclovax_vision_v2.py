"""HyperCLOVA X SEED with Qwen2.5-VL's tower."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.qwen_vl import qwen2_5_vl_tower


def read_hyperclovax_vision(facts: Facts, label: Label) -> ModelArchitecture:
    """Return HyperCLOVA X SEED with Qwen2.5-VL's tower and a linear layer after it.

    Source: vLLM 0.33.0 `models/hyperclovax_vision_v2.py`.
    """
    kind = str(facts.mapping("text_config").get("model_type") or "hyperclovax")
    text = text_facts(facts, kind)
    if not text.value("architectures") and kind == "hyperclovax":
        named = {**text.config, "architectures": ["HyperCLOVAXForCausalLM"]}
        text = Facts(named, kind)
    model = read_language_model(text, label)
    vision = sub_config(facts, "vision_config", "qwen2_5_vl_vision")
    size, columns = model.hidden_size, vision.integer("out_hidden_size")
    tower = without_input_norm(qwen2_5_vl_tower(vision))
    projector = blocks.replicated("mm_projector", (size, columns), (size,))
    tower = replace(tower, modules=(*tower.modules, projector))
    return composed(facts, label, model, tower, renames=(("vision_model.", "visual."),))


def without_input_norm(tower: Tower) -> Tower:
    """Return Qwen's tower in a class that hands it no input_norm."""
    kept = (module for module in tower.modules if module.name != "visual.input_norm")
    return replace(tower, modules=tuple(kept), items=(), reads_raw_pixels_since=None)


READERS = {
    "HCXVisionV2ForCausalLM": read_hyperclovax_vision,
}
