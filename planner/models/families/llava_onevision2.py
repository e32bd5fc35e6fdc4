"""LLaVA-OneVision 2: a tower of its own and Qwen3."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.qwen2_vl import QWEN2_RENAMES
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.qwen_vl import merger
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> tuple[Module, ...]:
    if facts.mapping("quantization_config"):
        raise facts.unsupported(
            "quantization_config", "which layers it holds for is not known here."
        )
    vision = sub_config(facts, "vision_config", "")
    return blocks.unquantised(*_onevision(vision, text_size))


def _onevision(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/llava_onevision2.py`."""
    sizes, name = blocks.Sizes.of(facts), "visual"
    size, patch = sizes.width, facts.integer("patch_size")
    channels = facts.integer("num_channels", default=3)
    embedding = f"{name}.embeddings.patch_embedding"
    yield blocks.convolution(embedding, size, channels, patch, patch, bias=False)
    yield blocks.norms(f"{name}.layernorm_pre", size, bias=True)
    # Time, height and width share half a head's dimensions as 4 : 6 : 6.
    half = size // sizes.heads // 2
    frequencies = (half * 4 // 16,), (half * 6 // 16,), (half * 6 // 16,)
    yield blocks.replicated(f"{name}.rotary_pos_emb", *frequencies, dtype="float32")
    parts = blocks.Parts(qkv="self_attn.qkv", out="self_attn.proj")
    yield from blocks.layers(f"{name}.encoder.layers", sizes, parts)
    patches = facts.integer("spatial_merge_size") ** 2
    yield from merger(f"{name}.merger", size, patches, text_size, bias=True)


READERS = {
    "LlavaOnevision2ForConditionalGeneration": Composite(
        _modules,
        text=Text("qwen3", "Qwen3ForCausalLM"),
        modalities=IMAGE_AND_VIDEO,
        renames=QWEN2_RENAMES,
    )
}
