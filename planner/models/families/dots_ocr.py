"""dots.ocr: Qwen2 with a tower of its own."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.multimodal import MODEL_RENAMES
from planner.models.families.towers import blocks, items
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.qwen_vl import merger
from planner.models.layers import Module

_VISION = own_defaults("DotsVisionConfig")


def _tower(facts: Facts, _text_size: int) -> Tower:
    vision = Facts(facts.mapping("vision_config"), "dots_vit", _VISION)
    return Tower(
        IMAGE,
        tuple(_modules(vision, "vision_tower")),
        items=items.dots_items(vision),
        rotates_in_fp32=True,
        supports_data_parallel=True,
    )


def _modules(facts: Facts, name: str) -> Iterator[Module]:
    """Yield the tower, whose merger is never quantised.

    Source: vLLM 0.33.0 `models/dots_ocr.py` DotsVisionTransformer.
    """
    size, heads = facts.integers("embed_dim", "num_attention_heads")
    mlp_size, patch = facts.integers("intermediate_size", "patch_size")
    bias, colours = facts.flag("use_bias"), facts.integer("num_channels")
    patches, pair = f"{name}.patch_embed.patchifier", (mlp_size, mlp_size)
    yield blocks.convolution(f"{patches}.proj", size, colours, patch, patch, bias=True)
    yield blocks.norms(f"{patches}.norm", size, bias=False)
    yield blocks.inverse_frequencies(f"{name}.rotary_pos_emb", size // heads)
    yield from blocks.repeated(
        f"{name}.blocks",
        facts.integer("num_hidden_layers"),
        blocks.qkv("attn.qkv", size, heads, bias=bias),
        blocks.row("attn.proj", size, size, bias=bias),
        blocks.norms("norm", size, count=2, bias=False),
        blocks.column("mlp.fc13", size, *pair, bias=bias, shards=("fc1", "fc3")),
        blocks.row("mlp.fc2", mlp_size, size, bias=bias),
    )
    if facts.flag("post_norm"):
        yield blocks.norms(f"{name}.post_trunk_norm", size, bias=False)
    count = facts.integer("spatial_merge_size") ** 2
    output = facts.integer("hidden_size")
    merged = merger(f"{name}.merger", size, count, output, bias=True)
    yield from blocks.unquantised(*merged)


READERS = {
    "DotsOCRForCausalLM": Composite(
        _tower, text=Text("qwen2", "Qwen2ForCausalLM", name=""), renames=MODEL_RENAMES
    )
}
