"""Gemma 3 with images: SigLIP beside it."""

from __future__ import annotations

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text, siglip_of
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import encoder_pass


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/gemma3_mm.py` Gemma3ForConditionalGeneration."""
    vision, encoder = siglip_of(facts, TOWER)
    size = vision.integer("hidden_size")
    weight = f"{PROJECTOR}.mm_input_projection_weight"
    return Tower(
        IMAGE,
        (
            *encoder,
            blocks.replicated(weight, (size, text_size)),
            blocks.norms(f"{PROJECTOR}.mm_soft_emb_norm", size, bias=False),
        ),
        items=tiles.gemma3_items(vision),
        forward=encoder_pass(vision),
    )


READERS = {
    "Gemma3ForConditionalGeneration": Composite(
        _tower,
        text=Text("gemma3_text", "Gemma3ForCausalLM"),
        renames=RENAMES,
        has_mm_prefix=True,
    )
}
