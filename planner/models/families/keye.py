"""Keye and Keye 1.5: SigLIP's tower, and Qwen3."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import composed, sub_config
from planner.models.families.qwen2_vl import QWEN2_RENAMES
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.clip import siglip_vision
from planner.models.layers import Linear, Module


def read_keye(
    facts: Facts, label: Label, *, norms_merged: bool = False
) -> ModelArchitecture:
    """Return Keye, or Keye 1.5, which norms patches once they are merged.

    Source: vLLM 0.33.0 `models/keye.py`, `models/keye_vl1_5.py`.
    """
    text = Facts(facts.config, "qwen3")
    inner = label.of("Qwen3ForCausalLM")
    model = llama.read(text, inner, style=llama.STYLES["Qwen3"])
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    size = vision.integer("hidden_size")
    half_head = size // vision.integer("num_attention_heads") // 2
    merged = 4 * size
    name = "visual.vision_model"
    modules: tuple[Module, ...] = (
        *_quantised_mlps(siglip_vision(vision, "visual")),
        blocks.replicated(f"{name}.embeddings.packing_position", (32768, size)),
        blocks.replicated(
            f"{name}.encoder.rotary_pos_emb", (half_head // 2,), dtype="float32"
        ),
        blocks.norms("mlp_AR.pre_norm", merged if norms_merged else size, bias=True),
        blocks.column("mlp_AR.linear_1", merged, merged, bias=True),
        blocks.row("mlp_AR.linear_2", merged, model.hidden_size, bias=True),
    )
    tower = Tower(modalities=IMAGE_AND_VIDEO, modules=modules)
    return composed(facts, label, model, tower, renames=QWEN2_RENAMES)


def _quantised_mlps(modules: tuple[Module, ...]) -> tuple[Module, ...]:
    """Return the tower of a class that passes the quantisation on to its MLPs."""
    return tuple(
        replace(module, is_quantizable=True)
        if isinstance(module, Linear) and ".mlp." in module.name
        else module
        for module in modules
    )


READERS = {
    "KeyeForConditionalGeneration": read_keye,
    "KeyeVL1_5ForConditionalGeneration": partial(read_keye, norms_merged=True),
}
