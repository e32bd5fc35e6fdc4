"""LLaVA-NeXT for videos."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, vision_tower
from planner.models.families.towers import blocks
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/llava_next_video.py`."""
    vision, encoder = vision_tower(facts)
    size, bias = vision.integer("hidden_size"), facts.flag("multimodal_projector_bias")
    yield from encoder
    yield blocks.linear(f"{PROJECTOR}.linear_1", size, text_size, bias=bias)
    yield blocks.linear(f"{PROJECTOR}.linear_2", text_size, text_size, bias=bias)


READERS = {
    "LlavaNextVideoForConditionalGeneration": Composite(
        _modules, modalities=("video",), renames=RENAMES
    )
}
