"""MiniCPM-V 4.6 and 4.7: Qwen3.5 with a tower that merges patches twice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import Tie, sub_config, text_facts
from planner.models.families.qwen3_next import read_qwen3_5_text
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import Depth, idefics_vision
from planner.models.layers import Module


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    return read_qwen3_5_text(text_facts(facts, "qwen3_5_text", tie=Tie.INNER), label)


def _tower(facts: Facts, text_size: int, *, drops_layer: bool | None = None) -> Tower:
    """Return the tower; None: whether its last layer is dropped, the config says.

    Source: vLLM 0.33.0 `models/minicpmv4_6.py`, `models/minicpmv4_7.py`.
    """
    vision = sub_config(facts, "vision_config", f"{facts.model_type}_vision")
    if drops_layer is None:
        drops_layer = facts.flag("drop_vision_last_layer")
    count = vision.integer("num_hidden_layers") - int(drops_layer)
    wide = 4 * vision.integer("hidden_size")
    return Tower(
        IMAGE,
        (
            *idefics_vision(vision, "vpm", Depth(num_layers=count, has_post_norm=True)),
            *_window_merger(vision),
            blocks.norms("merger.mlp.0.pre_norm", wide, bias=True),
            blocks.two_layers("merger.mlp.0.linear", wide, text_size, between=wide),
        ),
        supports_data_parallel=True,
    )


def _window_merger(facts: Facts) -> Iterator[Module]:
    size, heads = facts.integers("hidden_size", "num_attention_heads")
    wide, middle, name = 4 * size, 4 * facts.integer("intermediate_size"), "vit_merger"
    qkv, shards = f"{name}.self_attn.qkv_proj", blocks.QKV_SHARDS
    yield blocks.qkv(qkv, size, heads, bias=True, shards=shards)
    yield blocks.row(f"{name}.self_attn.out_proj", size, size, bias=True)
    yield blocks.norms(f"{name}.layer_norm1", size, bias=True)
    yield blocks.norms(f"{name}.pre_norm", wide, bias=True)
    yield blocks.two_layers(f"{name}.linear", wide, size, between=middle)


_KEEPING = Composite(partial(_tower, drops_layer=False), text=_text)
READERS = {
    "MiniCPMV4_6ForConditionalGeneration": Composite(_tower, text=_text),
    "MiniCPMOcrForConditionalGeneration": _KEEPING,
    "MiniCPMV4_7ForConditionalGeneration": _KEEPING,
}
