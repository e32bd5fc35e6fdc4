"""Step-VL, Step 3.7 and Step 5 with images: the perception encoder."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.layers import Module

_NAME = "vision_model"


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/step_vl.py`, `models/step3p7.py`."""
    vision = sub_config(facts, "vision_config", "perception_encoder")
    wide, bias = 4 * vision.integer("width"), facts.flag("projector_bias", default=True)
    projector = blocks.column("vit_large_projector", wide, text_size, bias=bias)
    return Tower(IMAGE, (*_perception(vision), projector), supports_data_parallel=True)


def _perception(facts: Facts) -> Iterator[Module]:
    """Yield the encoder, each of whose layers has a rotary table of its own.

    Source: vLLM 0.33.0 `models/step_vl.py` PerceptionEncoder.
    """
    width, patch = facts.integers("width", "patch_size")
    has_class = facts.flag("use_cls_token")
    positions = (facts.integer("image_size") // patch) ** 2 + int(has_class)
    yield blocks.convolution(f"{_NAME}.conv1", width, 3, patch, patch, bias=False)
    for number, size in ((1, width), (2, 2 * width)):
        name = f"{_NAME}.vit_downsampler{number}"
        yield blocks.convolution(name, 2 * size, size, 3, 3, bias=True)
    for norm in ("ln_pre", "ln_post"):
        if facts.flag(f"use_{norm}", default=True):
            yield blocks.norms(f"{_NAME}.{norm}", width, bias=True)
    if has_class:
        yield blocks.replicated(f"{_NAME}.class_embedding", (width,))
    if facts.flag("use_abs_posemb", default=True):
        yield blocks.replicated(f"{_NAME}.positional_embedding", (positions, width))
    yield from _layers(facts, width, positions)


def _layers(facts: Facts, width: int, positions: int) -> tuple[Module, ...]:
    heads = facts.integer("heads")
    mlp_size = int(width * facts.number("mlp_ratio", default=4.0))
    has_scale = facts.value("ls_init_value") is not None
    scales = (blocks.replicated("ls", (width,), (width,)),) if has_scale else ()
    return blocks.repeated(
        f"{_NAME}.transformer.resblocks",
        facts.integer("layers"),
        blocks.qkv("attn.qkv_proj", width, heads, bias=True),
        blocks.row("attn.out_proj", width, width, bias=True),
        blocks.replicated("attn.rope", (positions, width // heads), dtype="float32"),
        *blocks.plain_mlp("mlp.fc1", "mlp.fc2", width, mlp_size),
        blocks.norms("ln", width, count=2, bias=True),
        *scales,
    )


READERS = dict.fromkeys(
    (
        "StepVLForConditionalGeneration",
        "Step3p7ForConditionalGeneration",
        "Step5ForConditionalGeneration",
    ),
    Composite(_tower, text=Text("step3p5")),
)
