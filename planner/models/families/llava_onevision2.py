"""LLaVA-OneVision 2: a tower of its own and Qwen3."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.qwen2_vl import QWEN2_RENAMES
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.layers import Module


def read_llava_onevision2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LLaVA-OneVision 2. Source: vLLM 0.33.0 `models/llava_onevision2.py`."""
    if facts.mapping("quantization_config"):
        raise facts.unsupported(
            "quantization_config", "which layers it holds for is not known here."
        )
    text = named(text_facts(facts, "qwen3"), "Qwen3ForCausalLM", "qwen3")
    model = read_language_model(text, label)
    vision = sub_config(facts, "vision_config", "")
    modules = blocks.unquantised(*_onevision(vision, model.hidden_size))
    tower = Tower(modalities=IMAGE_AND_VIDEO, modules=modules)
    return composed(facts, label, model, tower, renames=QWEN2_RENAMES)


def _onevision(facts: Facts, text_size: int) -> Iterator[Module]:
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    name, patch = "visual", facts.integer("patch_size")
    channels = facts.integer("num_channels", default=3)
    embedding = f"{name}.embeddings.patch_embedding"
    yield blocks.convolution(embedding, size, channels, patch, patch, bias=False)
    yield blocks.norms(f"{name}.layernorm_pre", size, bias=True)
    # Time, height and width share half a head's dimensions as 4 : 6 : 6.
    half = size // heads // 2
    frequencies = (half * 4 // 16,), (half * 6 // 16,), (half * 6 // 16,)
    yield blocks.replicated(f"{name}.rotary_pos_emb", *frequencies, dtype="float32")
    wide = facts.integer("intermediate_size")
    for index in range(facts.integer("num_hidden_layers")):
        block = f"{name}.encoder.layers.{index}"
        yield blocks.norms(f"{block}.layer_norm", size, count=2, bias=True)
        yield blocks.qkv(f"{block}.self_attn.qkv", size, heads, bias=True)
        yield blocks.row(f"{block}.self_attn.proj", size, size, bias=True)
        yield from blocks.plain_mlp(f"{block}.mlp.fc1", f"{block}.mlp.fc2", size, wide)
    merged = size * facts.integer("spatial_merge_size") ** 2
    yield blocks.norms(f"{name}.merger.ln_q", size, bias=True)
    yield blocks.column(f"{name}.merger.mlp.0", merged, merged, bias=True)
    yield blocks.row(f"{name}.merger.mlp.2", merged, text_size, bias=True)


READERS = {
    "LlavaOnevision2ForConditionalGeneration": read_llava_onevision2,
}
