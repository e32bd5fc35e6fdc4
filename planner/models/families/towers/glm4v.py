"""The vision tower of GLM-4.1V, GLM-4.5V and GLM-4.6V."""

from __future__ import annotations

from planner.models.architecture import Tower
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks, items
from planner.models.families.towers.blocks import QKV_SHARDS
from planner.models.families.towers.qwen_vl import IMAGE_AND_VIDEO
from planner.models.layers import Module


def glm4v_tower(
    facts: Facts, name: str = "visual", *, gate_and_up: tuple[str, ...] = ()
) -> Tower:
    """Return the tower.

    `gate_and_up` are the checkpoint's layers packed in gate_up_proj, as the class's
    packed_modules_mapping has them.

    Source: vLLM 0.33.0 `models/glm4_1v.py` Glm4vVisionTransformer, whose blocks take
    the output's size for that of their MLP, and whose merger the MLP's.
    """
    size, output_size = facts.integer("hidden_size"), facts.integer("out_hidden_size")
    heads = facts.integer("num_heads")
    modules: list[Module] = [
        _patch_embedding(facts, name),
        blocks.input_norm(name),
        blocks.rotary_cache(f"{name}.rotary_pos_emb", size // heads),
    ]
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        modules += [
            blocks.norms(f"{block}.norm", size, count=2, bias=False),
            # Its name where a checkpoint names exceptions (compressed-tensors).
            blocks.qkv(
                f"{block}.attn.qkv_proj", size, heads, bias=False, shards=QKV_SHARDS
            ),
            blocks.row(f"{block}.attn.proj", size, size, bias=False),
            *blocks.gated_mlp(
                f"{block}.mlp", size, output_size, bias=False, shards=gate_and_up
            ),
        ]
    mlp_size = facts.integer("intermediate_size")
    modules += _merger(f"{name}.merger", output_size, mlp_size, gate_and_up)
    modules += _embeddings_and_downsampling(facts, name)
    return Tower(
        modalities=IMAGE_AND_VIDEO,
        modules=tuple(modules),
        items=items.glm4v_items(facts),
        supports_data_parallel=True,
    )


def glm_ocr_tower(facts: Facts, text_size: int, name: str = "visual") -> Tower:
    """Return GLM-OCR's tower; `text_size` is that of the language model's MLP.

    Source: vLLM 0.33.0 `models/glm_ocr.py` GlmOcrVisionTransformer.
    """
    size, heads = facts.integer("hidden_size"), facts.integer("num_heads")
    mlp_size, merge = (
        facts.integer("intermediate_size"),
        facts.integer("spatial_merge_size"),
    )
    modules: list[Module] = [
        _patch_embedding(facts, name),
        blocks.input_norm(name),
        blocks.rotary_cache(f"{name}.rotary_pos_emb", size // heads),
    ]
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        qkv = f"{block}.attn.qkv_proj"
        modules += [
            blocks.norms(f"{block}.norm", size, count=2, bias=False),
            blocks.norms(f"{block}.attn.qk_norm", size // heads, count=2, bias=False),
            blocks.qkv(qkv, size, heads, bias=True, shards=QKV_SHARDS),
            blocks.row(f"{block}.attn.proj", size, size, bias=True),
            *blocks.gated_mlp(f"{block}.mlp", size, mlp_size, bias=True, shards=()),
        ]
    output_size = facts.integer("out_hidden_size")
    modules += [
        *_merger(f"{name}.merger", output_size, text_size, ()),
        blocks.convolution(
            f"{name}.downsample", output_size, size, merge, merge, bias=True
        ),
        blocks.norms(f"{name}.post_layernorm", size, bias=False),
    ]
    return Tower(
        modalities=IMAGE_AND_VIDEO,
        modules=tuple(modules),
        items=items.glm4v_items(facts),
        supports_data_parallel=True,
    )


def _patch_embedding(facts: Facts, name: str) -> Module:
    patch = facts.integer("patch_size")
    return blocks.convolution(
        f"{name}.patch_embed.proj",
        facts.integer("hidden_size"),
        facts.integer("in_channels"),
        facts.integer("temporal_patch_size"),
        patch,
        patch,
        bias=True,
    )


def _merger(
    name: str, size: int, mlp_size: int, gate_and_up: tuple[str, ...]
) -> tuple[Module, ...]:
    return (
        blocks.column(f"{name}.proj", size, size, bias=False),
        blocks.norms(f"{name}.post_projection_norm", size, bias=True),
        *blocks.gated_mlp(
            name,
            size,
            mlp_size,
            bias=False,
            shards=gate_and_up,
        ),
    )


def _embeddings_and_downsampling(facts: Facts, name: str) -> tuple[Module, ...]:
    size, output_size = facts.integer("hidden_size"), facts.integer("out_hidden_size")
    side = facts.integer("image_size") // facts.integer("patch_size")
    merge = facts.integer("spatial_merge_size")
    return (
        blocks.replicated(f"{name}.embeddings.position_embedding", (side * side, size)),
        blocks.replicated(
            f"{name}.embeddings.position_ids", (side * side,), dtype="int64"
        ),
        blocks.norms(f"{name}.post_conv_layernorm", size, bias=False),
        blocks.convolution(
            f"{name}.downsample", output_size, size, merge, merge, bias=True
        ),
        blocks.norms(f"{name}.post_layernorm", size, bias=False),
    )
