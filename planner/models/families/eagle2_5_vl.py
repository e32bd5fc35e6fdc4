"""Eagle 2.5: SigLIP, and InternVL's projector."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, siglip_of
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import Depth
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/eagle2_5_vl.py`."""
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    chosen = facts.value("select_layer")
    layer = -1 if chosen is None else int(chosen)
    count = layer + 1 + (vision.integer("num_hidden_layers") if layer < 0 else 0)
    yield from siglip_of(facts, "vision_model", Depth(num_layers=count))[1]
    yield from shuffled_mlp(facts, vision, text_size)


def shuffled_mlp(facts: Facts, vision: Facts, text_size: int) -> tuple[Module, ...]:
    """Return InternVL's projector: patches joined by four, a norm, two layers."""
    ratio = facts.number("downsample_ratio", default=0.5)
    merged = vision.integer("hidden_size") * int(1 / ratio) ** 2
    return (
        blocks.norms("mlp1.0", merged, bias=True),
        blocks.linear("mlp1.1", merged, text_size, bias=True),
        blocks.linear("mlp1.3", text_size, text_size, bias=True),
    )


READERS = {"Eagle2_5_VLForConditionalGeneration": Composite(_modules)}
