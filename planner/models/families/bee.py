"""Bee and R-4B: LLaVA-OneVision with a norm before its projector."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, vision_tower
from planner.models.families.multimodal import composed, read_language_model, text_of
from planner.models.families.towers import blocks


def read_onevision_like(
    facts: Facts, label: Label, *, widening: int
) -> ModelArchitecture:
    """Return Bee or R-4B: LLaVA-OneVision with a norm before its projector.

    That projector is built beside the tower: each pipeline stage has it, and it stays
    when images are switched off. `widening` is how much wider than the language model
    its middle is.

    Source: vLLM 0.33.0 `models/bee.py`, `models/rvl.py`.
    """
    vision, modules = vision_tower(facts, has_post_norm=False)
    model = read_language_model(text_of(facts), label)
    size, text_size = vision.integer("hidden_size"), model.hidden_size
    own = (
        blocks.norms(f"{PROJECTOR}.pre_norm", size, bias=True),
        blocks.linear(f"{PROJECTOR}.linear_1", size, widening * text_size, bias=True),
        blocks.linear(
            f"{PROJECTOR}.linear_2", widening * text_size, text_size, bias=True
        ),
        blocks.replicated("image_newline", (text_size,)),
    )
    tower = Tower(modalities=("image", "video"), modules=modules)
    whole = composed(facts, label, model, tower, renames=RENAMES)
    return replace(whole, every_stage=(*whole.every_stage, *own))


READERS = {
    "BeeForConditionalGeneration": partial(read_onevision_like, widening=4),
    "RForConditionalGeneration": partial(read_onevision_like, widening=1),
}
