"""Step-VL, Step 3.7 and Step 5 with images: the perception encoder."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.layers import Module

_PERCEPTION = "vision_model"

_STEP_TEXT = {"step3p5": "Step3p5ForCausalLM"}


def read_step_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step-VL and Step 3.7.

    Source: vLLM 0.33.0 `models/step_vl.py`, `models/step3p7.py`.
    """
    given = facts.mapping("text_config")
    text = text_facts(facts, str(given.get("model_type") or "step3p5"))
    if not text.value("architectures") and text.model_type in _STEP_TEXT:
        named = {**text.config, "architectures": [_STEP_TEXT[text.model_type]]}
        text = Facts(named, text.model_type)
    model = read_language_model(text, label)
    vision = sub_config(facts, "vision_config", "perception_encoder")
    width = vision.integer("width")
    projector = blocks.column(
        "vit_large_projector",
        4 * width,
        model.hidden_size,
        bias=facts.flag("projector_bias", default=True),
    )
    modules = (*_perception(vision), projector)
    tower = Tower(modalities=("image",), modules=modules, supports_data_parallel=True)
    return composed(facts, label, model, tower)


def _perception(facts: Facts) -> tuple[Module, ...]:
    """Return the encoder, each of whose layers has a rotary table of its own.

    Source: vLLM 0.33.0 `models/step_vl.py` PerceptionEncoder.
    """
    width, patch = facts.integer("width"), facts.integer("patch_size")
    grid = facts.integer("image_size") // patch
    has_class = facts.flag("use_cls_token")
    positions = grid**2 + (1 if has_class else 0)
    modules: list[Module] = [
        blocks.convolution(f"{_PERCEPTION}.conv1", width, 3, patch, patch, bias=False),
        blocks.convolution(
            f"{_PERCEPTION}.vit_downsampler1", 2 * width, width, 3, 3, bias=True
        ),
        blocks.convolution(
            f"{_PERCEPTION}.vit_downsampler2", 4 * width, 2 * width, 3, 3, bias=True
        ),
    ]
    for norm in ("ln_pre", "ln_post"):
        if facts.flag(f"use_{norm}", default=True):
            modules.append(blocks.norms(f"{_PERCEPTION}.{norm}", width, bias=True))
    if has_class:
        modules.append(blocks.replicated(f"{_PERCEPTION}.class_embedding", (width,)))
    if facts.flag("use_abs_posemb", default=True):
        modules.append(
            blocks.replicated(f"{_PERCEPTION}.positional_embedding", (positions, width))
        )
    for index in range(facts.integer("layers")):
        modules += _perception_layer(facts, index, positions)
    return tuple(modules)


def _perception_layer(facts: Facts, index: int, positions: int) -> tuple[Module, ...]:
    width, heads = facts.integer("width"), facts.integer("heads")
    name = f"{_PERCEPTION}.transformer.resblocks.{index}"
    wide = int(width * facts.number("mlp_ratio", default=4.0))
    has_scale = facts.value("ls_init_value") is not None
    scales = (blocks.replicated(f"{name}.ls", (width,), (width,)),) if has_scale else ()
    return (
        blocks.qkv(f"{name}.attn.qkv_proj", width, heads, bias=True),
        blocks.row(f"{name}.attn.out_proj", width, width, bias=True),
        blocks.replicated(
            f"{name}.attn.rope", (positions, width // heads), dtype="float32"
        ),
        *blocks.plain_mlp(f"{name}.mlp.fc1", f"{name}.mlp.fc2", width, wide),
        blocks.norms(f"{name}.ln", width, count=2, bias=True),
        *scales,
    )


READERS = {
    "StepVLForConditionalGeneration": read_step_vl,
    "Step3p7ForConditionalGeneration": read_step_vl,
    "Step5ForConditionalGeneration": read_step_vl,
}
