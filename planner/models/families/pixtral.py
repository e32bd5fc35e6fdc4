"""Pixtral in Mistral's own format: a tower beside any of its language models."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    Tie,
    composed,
    nested,
    read_language_model,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.tiles import mistral3_items
from planner.models.layers import Module

_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_encoder."),
    ("model.multi_modal_projector.", "vision_language_adapter."),
)
_MERGES = "patch_merge"


def read_pixtral(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Pixtral as params.json describes it.

    Source: vLLM 0.33.0 `models/pixtral.py` PixtralForConditionalGeneration.
    """
    given = facts.mapping("text_config")
    text = text_facts(facts, str(given.get("model_type") or ""), tie=Tie.INNER)
    model = read_language_model(text, label)
    vision = nested(facts, "vision_config")
    size, text_size = vision.integer("hidden_size"), model.hidden_size
    merged = vision.integer("spatial_merge_size", default=1)
    modules = [*_encoder(vision, "vision_encoder")]
    if vision.flag("add_pre_mm_projector_layer_norm"):
        modules.append(blocks.norms("pre_mm_projector_norm", size, bias=False))
    if vision.value("mm_projector_id") == _MERGES:
        modules.append(
            blocks.replicated("patch_merger.merging_layer", (size, size * merged**2))
        )
    biases = ((text_size,),) * 2 if vision.flag("adapter_bias", default=True) else ()
    layers = ((text_size, size), (text_size, text_size))
    modules.append(blocks.replicated("vision_language_adapter", *layers, *biases))
    longest = vision.integer("max_image_size", "image_size")
    sides = {"image_size": longest, "patch_size": vision.integer("patch_size")}
    merging = Facts({"spatial_merge_size": merged}, "")
    tower = Tower(
        modalities=("image",),
        modules=tuple(modules),
        items=mistral3_items(merging, Facts(sides, "")),
        rotates_in_fp32=True,
        has_mistral_format=True,
    )
    return composed(facts, label, model, tower, renames=_RENAMES)


def _encoder(facts: Facts, name: str) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/pixtral.py` VisionTransformer."""
    size, wide = facts.integer("hidden_size"), facts.integer("intermediate_size")
    heads, patch = facts.integer("num_attention_heads"), facts.integer("patch_size")
    channels = facts.integer("num_channels")
    modules: list[Module] = [
        blocks.convolution(
            f"{name}.patch_conv", size, channels, patch, patch, bias=False
        ),
        blocks.norms(f"{name}.ln_pre", size, bias=False),
    ]
    for index in range(facts.integer("num_hidden_layers")):
        layer = f"{name}.transformer.layers.{index}"
        modules += [
            blocks.norms(f"{layer}.norm", size, count=2, bias=False),
            *blocks.unquantised(
                blocks.qkv(f"{layer}.attention.wqkv", size, heads, bias=False),
                blocks.row(f"{layer}.attention.wo", size, size, bias=False),
                *blocks.gated_mlp(f"{layer}.feed_forward", size, wide, bias=False),
            ),
        ]
    return tuple(modules)


READERS = {"PixtralForConditionalGeneration": read_pixtral}
