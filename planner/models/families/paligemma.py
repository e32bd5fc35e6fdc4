"""PaliGemma: SigLIP beside Gemma."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.gemma3_mm import RENAMES
from planner.models.families.llava import read_language_model
from planner.models.families.multimodal import (
    inner_type,
    known_as,
    quant_method,
    sub_config,
    text_facts,
    with_mm_prefix,
    with_towers,
)
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.clip import encoder_pass, siglip_vision


def read_paligemma(facts: Facts, label: Label) -> ModelArchitecture:
    """Return PaliGemma with its tower.

    Source: vLLM 0.33.0 `models/paligemma.py` PaliGemmaForConditionalGeneration.
    """
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    text = text_facts(facts, inner_type(facts, "gemma"))
    model = with_mm_prefix(read_language_model(text, label))
    size, output = vision.integer("hidden_size"), facts.integer("projection_dim")
    tower = Tower(
        modalities=("image",),
        modules=(
            *siglip_vision(vision, "vision_tower", quant_method=quant_method(facts)),
            blocks.replicated(
                "multi_modal_projector.linear", (output, size), (output,)
            ),
        ),
        items=tiles.paligemma_items(vision),
        forward=encoder_pass(vision),
    )
    whole = with_towers(
        model,
        (tower,),
        layer_prefix="language_model.model.layers",
        prefix_renames=RENAMES,
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


READERS = {
    "PaliGemmaForConditionalGeneration": read_paligemma,
}
