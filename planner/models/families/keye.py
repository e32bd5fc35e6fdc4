"""Keye and Keye 1.5: SigLIP's tower, and Qwen3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.qwen2_vl import QWEN2_RENAMES
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.clip import siglip_vision
from planner.models.layers import Linear, Module


def _modules(
    facts: Facts, text_size: int, *, norms_merged: bool = False
) -> Iterator[Module]:
    """Yield the tower, and a projector that norms patches, or merged ones (1.5).

    The class passes the quantisation on to the tower's MLPs.

    Source: vLLM 0.33.0 `models/keye.py`, `models/keye_vl1_5.py`.
    """
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    size = vision.integer("hidden_size")
    half_head = size // vision.integer("num_attention_heads") // 2
    merged, name = 4 * size, "visual.vision_model"
    for module in siglip_vision(vision, "visual"):
        if isinstance(module, Linear) and ".mlp." in module.name:
            yield replace(module, is_quantizable=True)
        else:
            yield module
    yield blocks.replicated(f"{name}.embeddings.packing_position", (32768, size))
    frequencies = f"{name}.encoder.rotary_pos_emb"
    yield blocks.replicated(frequencies, (half_head // 2,), dtype="float32")
    yield blocks.norms("mlp_AR.pre_norm", merged if norms_merged else size, bias=True)
    yield blocks.column("mlp_AR.linear_1", merged, merged, bias=True)
    yield blocks.row("mlp_AR.linear_2", merged, text_size, bias=True)


_KEYE = Composite(
    _modules,
    text=Text("qwen3", "Qwen3ForCausalLM", name=""),
    modalities=IMAGE_AND_VIDEO,
    renames=QWEN2_RENAMES,
)
READERS = {
    "KeyeForConditionalGeneration": _KEYE,
    "KeyeVL1_5ForConditionalGeneration": replace(
        _KEYE, tower=partial(_modules, norms_merged=True)
    ),
}
