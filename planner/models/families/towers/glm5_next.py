"""GLM-5.3-Flash's vision tower: GLM-OCR's with a longer rotary table."""

from __future__ import annotations

from planner.models.architecture import Tower
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module


def glm5_next_tower(facts: Facts, *, max_position: int, name: str = "visual") -> Tower:
    """Return the tower, of which nothing is quantised.

    `max_position` is the language model's, which decides the rotary table.

    Source: vLLM 0.33.0 `models/glm5next/common/multimodal.py`
    Glm5NextVisionTransformer.
    """
    size, heads = facts.integer("hidden_size"), facts.integer("num_heads")
    patch, merge = facts.integer("patch_size"), facts.integer("spatial_merge_size")
    head_size, output_size = size // heads, facts.integer("out_hidden_size")
    modules: list[Module] = [
        blocks.convolution(
            f"{name}.patch_embed.proj",
            size,
            facts.integer("in_channels", default=3),
            facts.integer("temporal_patch_size"),
            patch,
            patch,
            bias=True,
        ),
        blocks.replicated(
            f"{name}.rotary_pos_emb.cos_sin_cache", (max_position, head_size // 2)
        ),
    ]
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        modules += [
            blocks.norms(f"{block}.norm", size, count=2, bias=False),
            blocks.norms(f"{block}.attn.qk_norm", head_size, count=2, bias=False),
            blocks.qkv(f"{block}.attn.qkv", size, heads, bias=True),
            blocks.row(f"{block}.attn.proj", size, size, bias=True),
            *blocks.gated_mlp(
                f"{block}.mlp", size, facts.integer("intermediate_size"), bias=True
            ),
        ]
    merger = f"{name}.merger"
    modules += [
        blocks.column(f"{merger}.proj", output_size, output_size, bias=False),
        blocks.norms(f"{merger}.post_projection_norm", output_size, bias=True),
        *blocks.gated_mlp(
            merger,
            output_size,
            facts.integer("projection_intermediate_size"),
            bias=False,
        ),
        blocks.convolution(
            f"{name}.downsample", output_size, size, merge, merge, bias=True
        ),
        blocks.norms(f"{name}.post_layernorm", size, bias=False),
    ]
    return Tower(
        modalities=("image", "video"),
        modules=blocks.unquantised(*modules),
        supports_data_parallel=True,
    )
