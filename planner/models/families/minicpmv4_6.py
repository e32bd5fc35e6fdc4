"""MiniCPM-V 4.6 and 4.7: Qwen3.5 with a tower that merges patches twice."""

from __future__ import annotations

from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import Tie, composed, sub_config, text_facts
from planner.models.families.qwen3_next import read_qwen3_5_text
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import Depth, idefics_vision
from planner.models.layers import Module


def read_minicpmv4_6(
    facts: Facts, label: Label, *, drops_layer: bool | None = None
) -> ModelArchitecture:
    """Return MiniCPM-V 4.6 and 4.7: Qwen3.5 with a tower that merges patches twice.

    Source: vLLM 0.33.0 `models/minicpmv4_6.py`, `models/minicpmv4_7.py`.
    """
    text = text_facts(facts, "qwen3_5_text", tie=Tie.INNER)
    model = read_qwen3_5_text(text, label)
    vision = sub_config(facts, "vision_config", f"{facts.model_type}_vision")
    if drops_layer is None:
        drops_layer = facts.flag("drop_vision_last_layer")
    count = vision.integer("num_hidden_layers") - int(drops_layer)
    tower = Tower(
        modalities=("image",),
        modules=(
            *idefics_vision(vision, "vpm", Depth(num_layers=count, has_post_norm=True)),
            *_window_merger(vision),
            *_last_merger(vision.integer("hidden_size"), model.hidden_size),
        ),
        supports_data_parallel=True,
    )
    return composed(facts, label, model, tower)


def _window_merger(facts: Facts) -> tuple[Module, ...]:
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    wide, middle, name = 4 * size, 4 * facts.integer("intermediate_size"), "vit_merger"
    return (
        blocks.qkv(
            f"{name}.self_attn.qkv_proj",
            size,
            heads,
            bias=True,
            shards=blocks.QKV_SHARDS,
        ),
        blocks.row(f"{name}.self_attn.out_proj", size, size, bias=True),
        blocks.norms(f"{name}.layer_norm1", size, bias=True),
        blocks.norms(f"{name}.pre_norm", wide, bias=True),
        blocks.replicated(
            f"{name}.linear", (middle, wide), (middle,), (size, middle), (size,)
        ),
    )


def _last_merger(size: int, text_size: int) -> tuple[Module, ...]:
    wide, name = 4 * size, "merger.mlp.0"
    return (
        blocks.norms(f"{name}.pre_norm", wide, bias=True),
        blocks.replicated(
            f"{name}.linear", (wide, wide), (wide,), (text_size, wide), (text_size,)
        ),
    )


READERS = {
    "MiniCPMV4_6ForConditionalGeneration": read_minicpmv4_6,
    "MiniCPMOcrForConditionalGeneration": partial(read_minicpmv4_6, drops_layer=False),
    "MiniCPMV4_7ForConditionalGeneration": partial(read_minicpmv4_6, drops_layer=False),
}
