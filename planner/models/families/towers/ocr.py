"""The vision towers of dots.ocr and PaddleOCR-VL, both close to Qwen2-VL's."""

from __future__ import annotations

from planner.models.architecture import Tower
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks, items
from planner.models.layers import Module

IMAGE = ("image",)


def dots_tower(facts: Facts, name: str = "vision_tower") -> Tower:
    """Return dots.ocr's tower, whose merger is never quantised.

    Source: vLLM 0.33.0 `models/dots_ocr.py` DotsVisionTransformer.
    """
    size, heads = facts.integer("embed_dim"), facts.integer("num_attention_heads")
    mlp_size, patch = facts.integer("intermediate_size"), facts.integer("patch_size")
    bias, colours = facts.flag("use_bias"), facts.integer("num_channels")
    patches = f"{name}.patch_embed.patchifier"
    modules: list[Module] = [
        blocks.convolution(f"{patches}.proj", size, colours, patch, patch, bias=True),
        blocks.norms(f"{patches}.norm", size, bias=False),
        _inverse_frequencies(f"{name}.rotary_pos_emb", size // heads),
    ]
    for index in range(facts.integer("num_hidden_layers")):
        block = f"{name}.blocks.{index}"
        fc13, shards = f"{block}.mlp.fc13", ("fc1", "fc3")
        modules += [
            blocks.qkv(f"{block}.attn.qkv", size, heads, bias=bias),
            blocks.row(f"{block}.attn.proj", size, size, bias=bias),
            blocks.norms(f"{block}.norm", size, count=2, bias=False),
            blocks.column(fc13, size, mlp_size, mlp_size, bias=bias, shards=shards),
            blocks.row(f"{block}.mlp.fc2", mlp_size, size, bias=bias),
        ]
    if facts.flag("post_norm"):
        modules.append(blocks.norms(f"{name}.post_trunk_norm", size, bias=False))
    merged = size * facts.integer("spatial_merge_size") ** 2
    modules.append(blocks.norms(f"{name}.merger.ln_q", size, bias=True))
    modules += blocks.unquantised(
        blocks.column(f"{name}.merger.mlp.0", merged, merged, bias=True),
        blocks.row(
            f"{name}.merger.mlp.2", merged, facts.integer("hidden_size"), bias=True
        ),
    )
    return Tower(
        modalities=IMAGE,
        modules=tuple(modules),
        items=items.dots_items(facts),
        rotates_in_fp32=True,
        supports_data_parallel=True,
    )


def paddle_ocr_tower(facts: Facts, text_hidden_size: int) -> Tower:
    """Return PaddleOCR-VL's tower and its projector over 2 x 2 patches.

    Quantised MLPs need sizes that 64 divides.

    Source: vLLM 0.33.0 `models/paddleocr_vl.py` SiglipVisionModel and Projector;
    `models/siglip.py` SiglipMLP.
    """
    name, size = "visual.vision_model", facts.integer("hidden_size")
    heads, patch = facts.integer("num_attention_heads"), facts.integer("patch_size")
    mlp_size, colours = (
        facts.integer("intermediate_size"),
        facts.integer("num_channels"),
    )
    positions = (facts.integer("image_size") // patch) ** 2
    patches = f"{name}.embeddings.patch_embedding"
    modules: list[Module] = [
        blocks.convolution(patches, size, colours, patch, patch, bias=True),
        blocks.replicated(f"{name}.embeddings.position_embedding", (positions, size)),
        blocks.replicated(
            f"{name}.embeddings.position_ids", (positions,), dtype="int64"
        ),
    ]
    for index in range(facts.integer("num_hidden_layers")):
        layer = f"{name}.encoder.layers.{index}"
        qkv = f"{layer}.self_attn.qkv_proj"
        mlp = blocks.plain_mlp(f"{layer}.mlp.fc1", f"{layer}.mlp.fc2", size, mlp_size)
        is_even = size % 64 == mlp_size % 64 == 0
        modules += [
            blocks.norms(f"{layer}.layer_norm", size, count=2, bias=True),
            blocks.qkv(qkv, size, heads, bias=True, shards=blocks.QKV_SHARDS),
            blocks.row(f"{layer}.self_attn.out_proj", size, size, bias=True),
            *(mlp if is_even else blocks.unquantised(*mlp)),
        ]
    merged = 4 * size
    modules += [
        _inverse_frequencies(f"{name}.encoder.rotary_pos_emb", size // heads),
        blocks.norms(f"{name}.post_layernorm", size, bias=True),
        blocks.norms("mlp_AR.pre_norm", size, bias=True),
        blocks.replicated("mlp_AR.linear_1", (merged, merged), (merged,)),
        blocks.replicated(
            "mlp_AR.linear_2", (text_hidden_size, merged), (text_hidden_size,)
        ),
    ]
    return Tower(
        modalities=IMAGE,
        modules=tuple(modules),
        items=items.paddle_ocr_items(facts),
        rotates_in_fp32=True,
    )


def _inverse_frequencies(name: str, head_size: int) -> Module:
    """Return rotary frequencies: of half a head's dimensions, every other one."""
    count = -(-(head_size // 2) // 2)
    return blocks.replicated(f"{name}.inv_freq", (count,), dtype="float32")
