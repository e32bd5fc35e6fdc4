"""Phi-4 with SigLIP 2."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, TOWER
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import Depth
from planner.models.families.towers.siglip2 import siglip2_vision
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/phi4siglip.py`."""
    vision = sub_config(facts, "vision_config", "siglip2_vision_model")
    count, size = vision.integer("num_hidden_layers"), facts.integer("mm_hidden_size")
    depth = Depth(num_layers=count - 1, has_post_norm=False)
    yield from siglip2_vision(vision, TOWER, depth)
    yield blocks.column(f"{PROJECTOR}.linear_1", size, text_size, bias=True)
    yield blocks.row(f"{PROJECTOR}.linear_2", text_size, text_size, bias=True)


READERS = {
    "Phi4ForCausalLMV": Composite(
        _modules, text=Text("phi3", "Phi3ForCausalLM", name="")
    )
}
