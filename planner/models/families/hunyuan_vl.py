"""The family of HunyuanOCR, which vLLM leaves to Transformers, encoder and all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    Tie,
    known_as,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.towers import blocks
from planner.models.layers import Module

_TEXT: Mapping[str, Any] = {
    "vocab_size": 290943,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "attention_bias": False,
}

_VISION: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_channels": 3,
    "num_hidden_layers": 27,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "max_image_size": 2048,
}


def read_hunyuan_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a model of images; a flat config, as Tencent's are, describes the text.

    Source: vLLM 0.33.0 `models/transformers/multimodal.py`; Transformers 5.20.2
    `hunyuan_vl` (HunYuanVLConfig, HunYuanVLVisionTransformer).
    """
    text = text_facts(facts, "hunyuan_vl_text", flat_keys=facts.config, tie=Tie.EITHER)
    text = Facts(text.config, text.model_type, _TEXT)
    inner = label.of("HunYuanDenseV1ForCausalLM")
    model = llama.read(text, inner, style=llama.STYLES["HunYuanDense"])
    given = sub_config(facts, "vision_config", "hunyuan_vl_vision")
    vision = Facts(given.config, given.model_type, _VISION)
    whole = with_towers(
        model,
        (_whole_tower(vision, model.hidden_size),),
        layer_prefix="model.language_model.layers",
    )
    return known_as(whole, facts, label)


def _whole_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower, which each rank holds in full."""
    size, name = facts.integer("hidden_size"), "model.vision_tower"
    mlp_size = facts.integer("intermediate_size")
    edge = facts.integer("max_image_size") // facts.integer("patch_size")
    patch, channels = facts.integer("patch_size"), facts.integer("num_channels")
    modules: list[Module] = [
        blocks.convolution(
            f"{name}.embeddings.patch_embedding",
            size,
            channels,
            patch,
            patch,
            bias=True,
        ),
        blocks.replicated(
            f"{name}.embeddings.position_embedding", (edge * edge + 1, size)
        ),
    ]
    for index in range(facts.integer("num_hidden_layers")):
        block = f"{name}.layers.{index}"
        modules += [
            blocks.norms(f"{block}.layer_norm", size, count=2, bias=True),
            *(
                blocks.whole(f"{block}.self_attn.{part}_proj", size, size, bias=True)
                for part in ("q", "k", "v", "o")
            ),
            blocks.whole(f"{block}.mlp.fc1", size, mlp_size, bias=True),
            blocks.whole(f"{block}.mlp.fc2", mlp_size, size, bias=True),
        ]
    merge = facts.integer("spatial_merge_size")
    merger = f"{name}.patch_merger"
    modules += [
        blocks.convolution(
            f"{merger}.proj_conv", 2 * size, size, merge, merge, bias=True
        ),
        blocks.convolution(f"{merger}.proj_out", 4 * size, 2 * size, 1, 1, bias=True),
        blocks.whole(f"{merger}.mlp", 4 * size, text_size, bias=True),
        blocks.replicated(f"{merger}.image_newline", (4 * size,)),
        blocks.replicated(f"{merger}.image_marks", *((text_size,),) * 3),
        blocks.norms(f"{merger}.before_rms", size, bias=False),
        blocks.norms(f"{merger}.after_rms", text_size, bias=False),
    ]
    return Tower(modalities=("image",), modules=tuple(modules))


READERS = {
    "HunYuanVLForConditionalGeneration": read_hunyuan_vl,
}
