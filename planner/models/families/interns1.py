"""InternVL and Intern-S1 in the format of Transformers."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.internvl import (
    items_of,
    language_model,
    merged_size,
    whole_of,
)
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.facts import sides
from planner.models.layers import Module

_HF_RENAMES = (
    ("lm_head.", "language_model.lm_head."),
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_tower."),
    ("model.multi_modal_projector.", "multi_modal_projector."),
)


def read_internvl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return InternVL in the format of Transformers.

    Source: vLLM 0.33.0 `models/interns1.py` InternS1ForConditionalGeneration.
    """
    model = language_model(facts, label)
    vision = sub_config(facts, "vision_config", "internvl_vision")
    size = model.hidden_size
    merged = merged_size(facts, "internvl_vision")
    projector = blocks.replicated(
        "multi_modal_projector",
        *((merged,), (merged,), (size, merged), (size,), (size, size), (size,)),
    )
    tower = Tower(
        modalities=IMAGE_AND_VIDEO,
        modules=(*_hf_intern_vit(vision), projector),
        items=items_of(facts, vision),
    )
    whole = whole_of(facts, label, model, tower)
    return replace(whole, prefix_renames=_HF_RENAMES)


def _hf_intern_vit(facts: Facts) -> tuple[Module, ...]:
    """Return the tower of the checkpoints that Transformers' own class reads.

    Nothing in it is quantised, and only its MLPs are cut over the ranks.

    Source: vLLM 0.33.0 `models/interns1_vit.py` InternS1VisionModel.
    """
    name, size = "vision_tower", facts.integer("hidden_size")
    image, patch = sides(facts, "image_size"), sides(facts, "patch_size")
    positions = (image[0] // patch[0]) * (image[1] // patch[1]) + 1
    tokens = [(size,)]
    if facts.flag("use_mask_token"):
        tokens.append((size,))
    modules: list[Module] = [blocks.replicated(f"{name}.embeddings", *tokens)]
    if facts.flag("use_absolute_position_embeddings"):
        modules.append(
            blocks.replicated(f"{name}.embeddings.position", (positions, size))
        )
    modules.append(
        blocks.convolution(
            f"{name}.embeddings.patch_embeddings.projection",
            size,
            facts.integer("num_channels"),
            *patch,
            bias=True,
        )
    )
    for index in range(facts.integer("num_hidden_layers")):
        modules += _hf_layer(facts, f"{name}.encoder.layer.{index}")
    if not facts.flag("use_mean_pooling"):
        modules.append(blocks.norms(f"{name}.layernorm", size, bias=True))
    return tuple(modules)


def _hf_layer(facts: Facts, name: str) -> tuple[Module, ...]:
    size, bias = facts.integer("hidden_size"), facts.flag("attention_bias")
    norm_bias = facts.value("norm_type") == "layer_norm"
    attention = [(size, size)] * 4 + [(size,)] * (4 if bias else 1)
    if facts.flag("use_qk_norm"):
        attention += [(size,), (size,)]
    mlp = blocks.plain_mlp(
        f"{name}.mlp.fc1",
        f"{name}.mlp.fc2",
        size,
        facts.integer("intermediate_size"),
    )
    return (
        blocks.replicated(f"{name}.attention", *attention),
        *blocks.unquantised(*mlp),
        blocks.norms(f"{name}.layernorm", size, count=2, bias=norm_bias),
        blocks.replicated(f"{name}.lambda", (size,), (size,)),
    )


READERS = {
    "InternVLForConditionalGeneration": read_internvl,
    "InternS1ForConditionalGeneration": read_internvl,
}
