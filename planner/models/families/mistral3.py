"""Mistral Small 3.1 and later, and LightOnOCR: Pixtral's tower, patches merged."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.llava import (
    PROJECTOR,
    RENAMES,
    images,
    language_model,
    projector_of,
    vision_tower,
    whole_of,
)
from planner.models.families.multimodal import quant_method
from planner.models.families.towers import blocks, tiles


def read_mistral3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Mistral Small 3.1 and later: Pixtral's tower, patches merged by four.

    Source: vLLM 0.33.0 `models/mistral3.py` Mistral3ForConditionalGeneration.
    """
    vision, modules = vision_tower(facts)
    model = language_model(facts, label)
    size = vision.integer("hidden_size")
    patches = facts.integer("spatial_merge_size") ** 2
    merger = f"{PROJECTOR}.patch_merger.merging_layer"
    projector = (
        blocks.norms(f"{PROJECTOR}.norm", size, bias=False),
        blocks.replicated(merger, (size, size * patches)),
        *projector_of(facts, vision, model),
    )
    whole = whole_of(
        facts,
        label,
        model,
        images(vision, (*modules, *projector), tiles.mistral3_items(facts, vision)),
    )
    if not quant_method(facts):
        # Mistral publishes its own format beside this one; who quantises a model
        # publishes only this one.
        towers = tuple(replace(t, has_mistral_format=True) for t in whole.towers)
        whole = replace(whole, towers=towers)
    return replace(
        whole, prefix_renames=(*RENAMES, ("model.", "language_model.model."))
    )


def read_lighton_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LightOnOCR: Mistral 3's tower before Qwen3.

    Source: vLLM 0.33.0 `models/lightonocr.py`.
    """
    whole = read_mistral3(facts, label)
    towers = tuple(replace(tower, has_mistral_format=False) for tower in whole.towers)
    renames = (
        ("model.vision_encoder.", "vision_tower."),
        ("model.vision_projection.", "multi_modal_projector."),
    )
    return replace(
        whole, towers=towers, prefix_renames=(*renames, *whole.prefix_renames)
    )


READERS = {
    "Mistral3ForConditionalGeneration": read_mistral3,
    "LightOnOCRForConditionalGeneration": read_lighton_ocr,
}
