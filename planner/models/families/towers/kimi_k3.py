"""Kimi-K3's vision tower: MoonViT without biases, its heads wider than its states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import Tower
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.layers import Module

_DEFAULTS = own_defaults("KimiK3VisionConfig")


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
    return Tower(
        IMAGE,
        (*_encoder(facts, "vision_tower"), *_projector(facts, size, text_size)),
        rotates_in_fp32=True,
        supports_data_parallel=True,
        whole_unless_heads_divide=heads,
    )


def _encoder(facts: Facts, name: str) -> Iterator[Module]:
    size, patch, depth = facts.integers(
        "vt_hidden_size", "patch_size", "vt_num_hidden_layers"
    )
    norm_bias = facts.value("norm_type") != "rmsnorm"
    embedding, has_bias = f"{name}.patch_embed", facts.flag("patch_embed_proj_bias")
    high, wide, long = facts.integers(
        "init_pos_emb_height", "init_pos_emb_width", "init_pos_emb_time"
    )
    yield blocks.convolution(f"{embedding}.proj", size, 3, patch, patch, bias=has_bias)
    yield blocks.replicated(f"{embedding}.pos_emb", (high, wide, size))
    times = f"{embedding}.pos_emb.time_weight"
    yield blocks.replicated(times, (long, size), dtype="float32")
    yield blocks.norms(f"{name}.encoder.final_layernorm", size, bias=norm_bias)
    block = _block(facts, size, norm_bias=norm_bias)
    yield from blocks.repeated(f"{name}.encoder.blocks", depth, *block)


def _block(facts: Facts, size: int, *, norm_bias: bool) -> Iterator[Module]:
    wide, mlp_size, heads = facts.integers(
        "qkv_hidden_size", "vt_intermediate_size", "vt_num_attention_heads"
    )
    has_bias, linear_bias = facts.flag("attn_bias"), facts.flag("linear_bias")
    qkv = replace(
        blocks.qkv("wqkv", size, heads, bias=has_bias), head_size=wide // heads
    )
    yield blocks.norms("norm", size, count=2, bias=norm_bias)
    yield qkv
    yield blocks.row("wo", wide, size, bias=has_bias)
    yield blocks.column("mlp.fc0", size, mlp_size, bias=linear_bias)
    yield blocks.row("mlp.fc1", mlp_size, size, bias=linear_bias)


def _projector(facts: Facts, size: int, text_size: int) -> tuple[Module, ...]:
    rows, columns = facts.pair("merge_kernel_size")
    merged = size * rows * columns
    return (
        blocks.whole("mm_projector.linear_1", merged, merged, bias=False),
        blocks.whole("mm_projector.linear_2", merged, text_size, bias=False),
        blocks.norms("mm_projector.post_norm", text_size, bias=False),
    )
