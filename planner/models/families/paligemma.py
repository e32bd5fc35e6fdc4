"""PaliGemma: SigLIP beside Gemma."""

from __future__ import annotations

from functools import partial

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, siglip_of
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER, read_text
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import encoder_pass


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/paligemma.py` PaliGemmaForConditionalGeneration."""
    vision, encoder = siglip_of(facts, TOWER)
    size, output = vision.integer("hidden_size"), facts.integer("projection_dim")
    linear = blocks.linear(f"{PROJECTOR}.linear", size, output, bias=True)
    return Tower(
        IMAGE,
        (*encoder, linear),
        items=tiles.paligemma_items(vision),
        forward=encoder_pass(vision),
    )


read_paligemma = Composite(
    _tower,
    text=partial(read_text, default="gemma"),
    renames=RENAMES,
    has_mm_prefix=True,
)
READERS = {"PaliGemmaForConditionalGeneration": read_paligemma}
