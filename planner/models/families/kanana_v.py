"""Kanana-V: Qwen2-VL's tower, a projector of convolutions, and Llama."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.qwen_vl import qwen2_vl_tower
from planner.models.layers import Module


def _modules(facts: Facts, _text_size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/kanana_v.py`; timm 1.0.31 `regnet.py` RegStage."""
    vision = qwen2_vl_tower(sub_config(facts, "vision_config", "qwen2_vl_vision"))
    kept = tuple(m for m in vision.modules if ".merger." not in m.name)
    projector = sub_config(facts, "projector_config", "")
    return (*blocks.unquantised(*kept), *_abstractor(projector))


def _abstractor(facts: Facts) -> Iterator[Module]:
    name, depth = "abstractor", facts.integer("depth")
    seen, size = facts.integers("encoder_hidden_size", "hidden_size")
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
        yield blocks.linear(f"{name}.readout.{index}", inner, output, bias=True)


def _stage(name: str, depth: int, given: int, size: int) -> Iterator[Module]:
    """Yield blocks of three convolutions that a gate of a quarter's width weighs."""
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
    "KananaVForConditionalGeneration": Composite(
        _modules, text=Text("llama", "LlamaForCausalLM")
    )
}
