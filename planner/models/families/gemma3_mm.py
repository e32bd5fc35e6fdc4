"""Gemma 3 with images: SigLIP beside it."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    known_as,
    quant_method,
    sub_config,
    text_facts,
    with_mm_prefix,
    with_towers,
)
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.clip import encoder_pass, siglip_vision

RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_tower."),
    ("model.multi_modal_projector.", "multi_modal_projector."),
    ("lm_head.", "language_model.lm_head."),
)

LAYERS = "language_model.model.layers"


def read_gemma3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Gemma 3 with its tower.

    Source: vLLM 0.33.0 `models/gemma3_mm.py` Gemma3ForConditionalGeneration.
    """
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    inner = label.of("Gemma3ForCausalLM")
    text = text_facts(facts, "gemma3_text")
    model = llama.read(text, inner, style=llama.STYLES["Gemma3"])
    size = vision.integer("hidden_size")
    projector = "multi_modal_projector"
    tower = Tower(
        modalities=("image",),
        modules=(
            *siglip_vision(vision, "vision_tower", quant_method=quant_method(facts)),
            blocks.replicated(
                f"{projector}.mm_input_projection_weight", (size, model.hidden_size)
            ),
            blocks.norms(f"{projector}.mm_soft_emb_norm", size, bias=False),
        ),
        items=tiles.gemma3_items(vision),
        forward=encoder_pass(vision),
    )
    whole = with_towers(
        with_mm_prefix(model),
        (tower,),
        layer_prefix=LAYERS,
        prefix_renames=RENAMES,
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


READERS = {
    "Gemma3ForConditionalGeneration": read_gemma3,
}
