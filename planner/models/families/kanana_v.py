"""Kanana-V: Qwen2-VL's tower, a projector of convolutions, and Llama."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.qwen_vl import qwen2_vl_tower
from planner.models.layers import Module


def read_kanana_v(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Kanana-V: Qwen2-VL's tower, a projector of convolutions, and Llama.

    Source: vLLM 0.33.0 `models/kanana_v.py`; timm 1.0.31 `regnet.py` RegStage.
    """
    text = named(text_facts(facts, "llama"), "LlamaForCausalLM", "llama")
    model = read_language_model(text, label)
    vision = qwen2_vl_tower(sub_config(facts, "vision_config", "qwen2_vl_vision"))
    kept = tuple(m for m in vision.modules if ".merger." not in m.name)
    projector = sub_config(facts, "projector_config", "")
    modules = (*blocks.unquantised(*kept), *_abstractor(projector))
    return composed(facts, label, model, Tower(modalities=IMAGE, modules=modules))


def _abstractor(facts: Facts) -> Iterator[Module]:
    name, depth = "abstractor", facts.integer("depth")
    seen, size = facts.integer("encoder_hidden_size"), facts.integer("hidden_size")
    output, read = facts.integer("output_hidden_size"), seen
    if facts.flag("pos_emb"):
        positions = facts.integer("pos_emb_size")
        yield blocks.replicated(f"{name}.pos_emb", (positions, seen))
    if depth:
        merged, read = size * facts.integer("merge_size") ** 2, size
        yield from _stage(f"{name}.net.0", depth, seen, size)
        yield from _stage(f"{name}.net.2", depth, merged, size)
    for index in range(facts.integer("mlp_depth")):
        inner = output if index else read
        yield blocks.replicated(f"{name}.readout.{index}", (output, inner), (output,))


def _stage(name: str, depth: int, given: int, size: int) -> Iterator[Module]:
    """Return blocks of three convolutions that a gate of a quarter's width weighs."""
    vector = (size,)
    for index in range(depth):
        before = size if index else given
        quarter = round(before / 4)
        gate = (quarter, size), (quarter,), (size, quarter), vector
        convolutions = (size, before), (size, 9), (size, size)
        beside = ((size, before), vector, vector) if before != size else ()
        norms = (vector,) * 6
        shapes = (*convolutions, *norms, *gate, *beside)
        yield blocks.replicated(f"{name}.b{index + 1}", *shapes)


READERS = {
    "KananaVForConditionalGeneration": read_kanana_v,
}
