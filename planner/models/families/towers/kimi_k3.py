"""Kimi-K3's vision tower: MoonViT without biases, its heads wider than its states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.models.architecture import Tower
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module, Part, QKVParallelLinear, ReplicatedLinear

_DEFAULTS: Mapping[str, Any] = {
    "patch_size": 14,
    "init_pos_emb_height": 64,
    "init_pos_emb_width": 64,
    "init_pos_emb_time": 4,
    "vt_num_attention_heads": 12,
    "vt_num_hidden_layers": 27,
    "vt_hidden_size": 1024,
    "vt_intermediate_size": 4096,
    "merge_kernel_size": (2, 2),
    "mm_projector_type": "patchmergerv2",
    "qkv_hidden_size": 1536,
    "norm_type": "rmsnorm",
    "attn_bias": False,
    "patch_embed_proj_bias": False,
    "linear_bias": False,
}


def kimi_k3_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower with its projector.

    Ranks that do not divide its heads hold it in full.

    Raises:
        UnknownArchitecture: for a projector of another kind.

    Source: vLLM 0.33.0 `models/kimi_k25_vit.py` MoonViT3dPretrainedModel,
    KimiK25MultiModalProjector; `transformers_utils/configs/kimi_k3.py`.
    """
    facts = Facts(facts.config, facts.model_type, _DEFAULTS)
    if facts.value("mm_projector_type") != "patchmergerv2":
        raise facts.unsupported("mm_projector_type", "patchmergerv2 is.")
    size, heads = facts.integers("vt_hidden_size", "vt_num_attention_heads")
    patch, has_bias = facts.integer("patch_size"), facts.value("norm_type") != "rmsnorm"
    name = "vision_tower"
    modules: list[Module] = [
        blocks.convolution(
            f"{name}.patch_embed.proj",
            size,
            3,
            patch,
            patch,
            bias=facts.flag("patch_embed_proj_bias"),
        ),
        blocks.replicated(
            f"{name}.patch_embed.pos_emb",
            (
                facts.integer("init_pos_emb_height"),
                facts.integer("init_pos_emb_width"),
                size,
            ),
        ),
        blocks.replicated(
            f"{name}.patch_embed.pos_emb.time_weight",
            (facts.integer("init_pos_emb_time"), size),
            dtype="float32",
        ),
        blocks.norms(f"{name}.encoder.final_layernorm", size, bias=has_bias),
    ]
    for index in range(facts.integer("vt_num_hidden_layers")):
        block = f"{name}.encoder.blocks.{index}"
        modules.append(blocks.norms(f"{block}.norm", size, count=2, bias=has_bias))
        modules += _block(facts, block, size, heads)
    modules += _projector(facts, size, text_size)
    return Tower(
        modalities=("image",),
        modules=tuple(modules),
        rotates_in_fp32=True,
        supports_data_parallel=True,
        whole_unless_heads_divide=heads,
    )


def _block(facts: Facts, name: str, size: int, heads: int) -> tuple[Module, ...]:
    wide, mlp_size = facts.integers("qkv_hidden_size", "vt_intermediate_size")
    attention_bias, linear_bias = facts.flag("attn_bias"), facts.flag("linear_bias")
    return (
        QKVParallelLinear(
            name=f"{name}.wqkv",
            part=Part.TOWERS,
            input_size=size,
            num_heads=heads,
            num_kv_heads=heads,
            head_size=wide // heads,
            bias=attention_bias,
            shards=(),
        ),
        blocks.row(f"{name}.wo", wide, size, bias=attention_bias),
        blocks.column(f"{name}.mlp.fc0", size, mlp_size, bias=linear_bias),
        blocks.row(f"{name}.mlp.fc1", mlp_size, size, bias=linear_bias),
    )


def _projector(facts: Facts, size: int, text_size: int) -> tuple[Module, ...]:
    rows, columns = facts.pair("merge_kernel_size")
    merged = size * rows * columns
    return (
        _linear("mm_projector.linear_1", merged, merged),
        _linear("mm_projector.linear_2", merged, text_size),
        blocks.norms("mm_projector.post_norm", text_size, bias=False),
    )


def _linear(name: str, input_size: int, output_size: int) -> Module:
    return ReplicatedLinear(
        name=name, part=Part.TOWERS, input_size=input_size, output_sizes=(output_size,)
    )
