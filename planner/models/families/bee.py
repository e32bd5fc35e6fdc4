"""Bee and R-4B: LLaVA-OneVision with a norm before its projector.

That projector is built beside the tower: each pipeline stage has it, and it stays when
images are switched off.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, vision_tower
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.layers import Module


def _projector(facts: Facts, text_size: int, *, widening: int) -> Iterator[Module]:
    """Yield its layers, whose middle is so much wider than the language model.

    Source: vLLM 0.33.0 `models/bee.py`, `models/rvl.py`.
    """
    size = vision_tower(facts)[0].integer("hidden_size")
    wide = widening * text_size
    yield blocks.norms(f"{PROJECTOR}.pre_norm", size, bias=True)
    yield blocks.linear(f"{PROJECTOR}.linear_1", size, wide, bias=True)
    yield blocks.linear(f"{PROJECTOR}.linear_2", wide, text_size, bias=True)
    yield blocks.replicated("image_newline", (text_size,))


READERS = {
    name: Composite(
        lambda facts, _size: vision_tower(facts)[1],
        modalities=IMAGE_AND_VIDEO,
        beside=partial(_projector, widening=widening),
        renames=RENAMES,
    )
    for name, widening in (
        ("BeeForConditionalGeneration", 4),
        ("RForConditionalGeneration", 1),
    )
}
