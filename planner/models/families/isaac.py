"""Isaac: Qwen3 after SigLIP 2, whose neighbouring patches are merged."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.siglip2 import siglip2_vision


def read_isaac(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Isaac: Qwen3 after SigLIP 2, whose neighbouring patches are merged.

    Source: vLLM 0.33.0 `models/isaac.py`.
    """
    text = text_facts(facts, "qwen3") if facts.mapping("text_config") else facts
    rope = text.mapping("rope_parameters") or text.mapping("rope_scaling")
    named = {
        **text.config,
        "architectures": ["Qwen3ForCausalLM"],
        "rope_parameters": {**rope, "mrope_section": _sections(text)},
    }
    model = read_language_model(Facts(named, "qwen3"), label)
    vision = sub_config(facts, "vision_config", "pixel_shuffle_siglip2")
    factor = vision.integer("pixel_shuffle_scale_factor")
    merged = vision.integer("hidden_size") * factor**2
    modules = (
        *siglip2_vision(vision, "vision_embedding.transformer"),
        blocks.column("vision_embedding.1", merged, 4 * merged, bias=False),
        blocks.row("vision_embedding.3", 4 * merged, model.hidden_size, bias=False),
    )
    tower = Tower(modalities=("image",), modules=modules, supports_data_parallel=True)
    return composed(facts, label, model, tower)


def _sections(facts: Facts) -> list[int]:
    """Return how Isaac's class shares a head among time, height and width."""
    size = facts.integer("head_dim")
    return [size // 4, size // 8, size // 8]


READERS = {
    "IsaacForConditionalGeneration": read_isaac,
}
