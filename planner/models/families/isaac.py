"""Isaac: Qwen3 after SigLIP 2, whose neighbouring patches are merged."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.siglip2 import siglip2_vision


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3, whose heads time, height and width share in its class's way."""
    text = text_facts(facts, "qwen3") if facts.mapping("text_config") else facts
    rope = text.mapping("rope_parameters") or text.mapping("rope_scaling")
    size = text.integer("head_dim")
    shared = {**rope, "mrope_section": [size // 4, size // 8, size // 8]}
    own = Facts({**text.config, "rope_parameters": shared}, "qwen3")
    return read_language_model(named(own, "Qwen3ForCausalLM"), label)


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/isaac.py`."""
    vision = sub_config(facts, "vision_config", "pixel_shuffle_siglip2")
    factor = vision.integer("pixel_shuffle_scale_factor")
    merged = vision.integer("hidden_size") * factor**2
    modules = (
        *siglip2_vision(vision, "vision_embedding.transformer"),
        blocks.column("vision_embedding.1", merged, 4 * merged, bias=False),
        blocks.row("vision_embedding.3", 4 * merged, text_size, bias=False),
    )
    return Tower(IMAGE, modules, supports_data_parallel=True)


READERS = {"IsaacForConditionalGeneration": Composite(_tower, text=_text)}
