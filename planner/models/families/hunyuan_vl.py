"""The family of HunyuanOCR, which vLLM leaves to Transformers, encoder and all."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.multimodal import (
    Tie,
    known_as,
    read_as,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.layers import Module

_TEXT = own_defaults("HunYuanVLTextConfig")
_VISION = own_defaults("HunYuanVLVisionConfig")


def _read(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a model of images; a flat config, as Tencent's are, describes the text.

    Source: vLLM 0.33.0 `models/transformers/multimodal.py`; Transformers 5.20.2
    `hunyuan_vl` (HunYuanVLConfig, HunYuanVLVisionTransformer).
    """
    text = text_facts(facts, "hunyuan_vl_text", flat_keys=facts.config, tie=Tie.EITHER)
    text = Facts(text.config, text.model_type, _TEXT)
    model = read_as(text, label, "HunYuanDenseV1ForCausalLM")
    given = sub_config(facts, "vision_config", "hunyuan_vl_vision")
    vision = Facts(given.config, given.model_type, _VISION)
    tower = Tower(IMAGE, tuple(_modules(vision, model.hidden_size)))
    layers = "model.language_model.layers"
    whole = with_towers(model, (tower,), layer_prefix=layers)
    return known_as(whole, facts, label)


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Yield the tower, which each rank holds in full."""
    size, name = facts.integer("hidden_size"), "model.vision_tower"
    wide, patch = facts.integers("intermediate_size", "patch_size")
    positions = (facts.integer("max_image_size") // patch) ** 2 + 1
    embedding, channels = f"{name}.embeddings", facts.integer("num_channels")
    patches = f"{embedding}.patch_embedding"
    yield blocks.convolution(patches, size, channels, patch, patch, bias=True)
    yield blocks.replicated(f"{embedding}.position_embedding", (positions, size))
    yield from blocks.repeated(
        f"{name}.layers",
        facts.integer("num_hidden_layers"),
        blocks.norms("layer_norm", size, count=2, bias=True),
        *(
            blocks.whole(f"self_attn.{part}_proj", size, size, bias=True)
            for part in ("q", "k", "v", "o")
        ),
        blocks.whole("mlp.fc1", size, wide, bias=True),
        blocks.whole("mlp.fc2", wide, size, bias=True),
    )
    kernel, merger = (facts.integer("spatial_merge_size"),) * 2, f"{name}.patch_merger"
    convolution, output = f"{merger}.proj_conv", f"{merger}.proj_out"
    yield blocks.convolution(convolution, 2 * size, size, *kernel, bias=True)
    yield blocks.convolution(output, 4 * size, 2 * size, 1, 1, bias=True)
    yield blocks.whole(f"{merger}.mlp", 4 * size, text_size, bias=True)
    yield blocks.replicated(f"{merger}.image_newline", (4 * size,))
    yield blocks.replicated(f"{merger}.image_marks", *((text_size,),) * 3)
    yield blocks.norms(f"{merger}.before_rms", size, bias=False)
    yield blocks.norms(f"{merger}.after_rms", text_size, bias=False)


READERS = {"HunYuanVLForConditionalGeneration": _read}
