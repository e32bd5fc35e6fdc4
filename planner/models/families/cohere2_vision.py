"""Cohere 2 with images."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, siglip_of
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER
from planner.models.families.towers import blocks
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/cohere2_vision.py`."""
    vision, encoder = siglip_of(facts, TOWER)
    merged = vision.integer("hidden_size") * facts.integer("downsample_factor") ** 2
    half = facts.integer("alignment_intermediate_size") // 2
    yield from encoder
    yield blocks.column(f"{PROJECTOR}.linear_1", merged, half, half, bias=True)
    yield blocks.row(f"{PROJECTOR}.linear_2", half, text_size, bias=True)


READERS = {
    "Cohere2VisionForConditionalGeneration": Composite(_modules, renames=RENAMES)
}
