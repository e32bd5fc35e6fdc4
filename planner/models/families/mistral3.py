"""Mistral Small 3.1 and later, and LightOnOCR: Pixtral's tower, patches merged."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.models.architecture import Tower
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.llava import (
    PROJECTOR,
    RENAMES,
    images,
    projector,
    read_text,
    vision_tower,
)
from planner.models.families.multimodal import quant_method
from planner.models.families.towers import blocks, tiles

_RENAMES = (*RENAMES, ("model.", "language_model.model."))


def _tower(facts: Facts, text_size: int, *, has_own_format: bool = True) -> Tower:
    """Source: vLLM 0.33.0 `models/mistral3.py` Mistral3ForConditionalGeneration.

    Mistral publishes its own format beside this one; who quantises a model publishes
    only this one.
    """
    vision, modules = vision_tower(facts)
    size = vision.integer("hidden_size")
    patches = facts.integer("spatial_merge_size") ** 2
    merger = f"{PROJECTOR}.patch_merger.merging_layer"
    own = (
        blocks.norms(f"{PROJECTOR}.norm", size, bias=False),
        blocks.replicated(merger, (size, size * patches)),
        *projector(facts, vision, text_size),
    )
    return replace(
        images(vision, (*modules, *own), tiles.mistral3_items(facts, vision)),
        has_mistral_format=has_own_format and not quant_method(facts),
    )


READERS = {
    "Mistral3ForConditionalGeneration": Composite(
        _tower, text=read_text, renames=_RENAMES
    ),
    # Mistral 3's tower before Qwen3. Source: vLLM 0.33.0 `models/lightonocr.py`.
    "LightOnOCRForConditionalGeneration": Composite(
        partial(_tower, has_own_format=False),
        text=read_text,
        renames=(
            ("model.vision_encoder.", "vision_tower."),
            ("model.vision_projection.", "multi_modal_projector."),
            *_RENAMES,
        ),
    ),
}
