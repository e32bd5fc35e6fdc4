"""DiffusionGemma: Gemma 4, and an MLP that reads its own guesses."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.gemma4 import read_gemma4_text
from planner.models.families.multimodal import (
    composed,
    quant_method,
    sub_config,
    text_facts,
)
from planner.models.families.towers import gemma4
from planner.models.layers import Part, Replicated


def _read(facts: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/diffusion_gemma.py`."""
    text = text_facts(facts, "diffusion_gemma_text")
    model = read_gemma4_text(text, label)
    size = model.hidden_size
    width = facts.optional_integer("self_conditioning_size")
    width = width or text.integer("intermediate_size")
    guesses = Replicated(
        "self_conditioning", Part.MLP, ((size,),) * 2 + ((width, size),) * 3
    )
    towers: tuple[Tower, ...] = ()
    if facts.value("vision_config") is not None:
        vision = sub_config(facts, "vision_config", "gemma4_vision")
        towers = (gemma4.vision_tower(vision, size, quant_method(facts)),)
    every = (*model.every_stage, guesses)
    own = replace(model, every_stage=every, supports_pp=False)
    return composed(facts, label, own, *towers, prefix="")


READERS = {"DiffusionGemmaForBlockDiffusion": _read}
