"""MiMo-V2 with images and videos."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import read_as, sub_config
from planner.models.families.qwen2_vl import QWEN2_RENAMES
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.layers import Module, Part, QKVParallelLinear


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    if facts.mapping("audio_config"):
        raise facts.unsupported(
            "audio_config", "the tokeniser of sounds has a folder of its own."
        )
    blind = Facts({**facts.config, "vision_config": None}, facts.model_type)
    return read_as(blind, label, "MiMoV2FlashForCausalLM")


def _modules(facts: Facts, _text_size: int) -> tuple[Module, ...]:
    return blocks.unquantised(*_vision(sub_config(facts, "vision_config", "")))


def _vision(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/mimo_v2_omni.py` MiMoVisionTransformer."""
    size, heads = facts.integers("hidden_size", "num_heads")
    keys = facts.integer("qk_channels", default=64)
    values = facts.integer("kv_channels", default=64)
    name, patch = "visual", facts.integer("patch_size")
    times = facts.integer("temporal_patch_size", default=2)
    embedding, channels = f"{name}.patch_embed.proj", facts.integer("in_channels")
    kernel = times, patch, patch
    yield blocks.convolution(embedding, size, channels, *kernel, bias=False)
    yield blocks.rotary_cache(f"{name}.rotary_pos_emb", keys)
    whole = facts.value("fullatt_block_indexes") or ()
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        yield blocks.norms(f"{block}.norm", size, count=2, bias=False)
        yield QKVParallelLinear(
            name=f"{block}.attn.qkv",
            part=Part.TOWERS,
            input_size=size,
            num_heads=heads,
            num_kv_heads=facts.integer("num_key_value_heads", default=8),
            head_size=keys,
            head_size_v=values,
            bias=True,
            shards=(),
        )
        yield blocks.row(f"{block}.attn.proj", heads * values, size, bias=True)
        if facts.flag("use_sink") and index not in whole:
            yield blocks.replicated(f"{block}.attn.sinks", (heads,))
        wide = facts.integer("intermediate_size")
        yield from blocks.gated_mlp(f"{block}.mlp", size, wide, bias=True)
    merged = size * facts.integer("spatial_merge_size") ** 2
    output = facts.integer("out_hidden_size")
    yield blocks.norms(f"{name}.merger.ln_q", size, bias=False)
    yield blocks.column(f"{name}.merger.mlp.0", merged, merged, bias=False)
    yield blocks.row(f"{name}.merger.mlp.2", merged, output, bias=False)


READERS = {
    "MiMoV2OmniForCausalLM": Composite(
        _modules, text=_text, modalities=IMAGE_AND_VIDEO, renames=QWEN2_RENAMES
    )
}
