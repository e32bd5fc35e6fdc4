"""Bagel's half that understands images: SigLIP and Qwen2."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import quant_method, sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import siglip_vision
from planner.models.layers import Module

_KEPT = {27: 26}  # Bagel's checkpoint lacks the last of SigLIP's layers


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Yield the tower, whose table of positions stays on the CPU.

    Source: vLLM 0.33.0 `models/bagel.py`.
    """
    if not facts.flag("visual_und", default=True):
        raise facts.unsupported("visual_und", "a model that sees is.")
    vision = sub_config(facts, "vit_config", "siglip_vision_model")
    layers = vision.integer("num_hidden_layers")
    kept = {**vision.config, "num_hidden_layers": _KEPT.get(layers, layers)}
    seen, size = Facts(kept, vision.model_type), vision.integer("hidden_size")
    yield from siglip_vision(seen, "vit_model", quant_method=quant_method(facts))
    yield blocks.column("connector.fc1", size, text_size, bias=True)
    yield blocks.row("connector.fc2", text_size, text_size, bias=True)


READERS = {
    "BagelForConditionalGeneration": Composite(
        _modules,
        text=Text("qwen2", "Qwen2ForCausalLM", name="llm_config"),
        has_mm_prefix=True,
    )
}
