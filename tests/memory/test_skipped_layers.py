"""Layers left out of KV cache quantisation."""

from dataclasses import replace

import pytest

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.memory.kv_cache.attention_backends import (
    FlashAttention,
    FlashInfer,
    TurboQuant,
)
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.choosing import (
    check_aligned,
    skipped_layers,
    suiting_skipped,
)
from planner.memory.kv_cache.kernels import resolve_kernels
from planner.memory.kv_cache.kv_groups import group
from tests.configs import LLAMA_8B, architecture, gpu

LLAMA = architecture(LLAMA_8B)
CONTEXT = CacheContext(
    gpu=gpu(),
    layout=ParallelLayout(),
    dtype="bfloat16",
    kv_cache_dtype="fp8",
    head_size=128,
    num_heads=32,
    num_kv_heads=8,
)


def test_turboquant_leaves_the_first_and_the_last_two_layers() -> None:
    """Of 32; others leave out what was asked for."""
    assert ("sliding_window",) == skipped_layers(["sliding_window"], "fp8", LLAMA)
    assert ("0", "1", "30", "31", "7") == skipped_layers(
        ["7"], "turboquant_k8v4", LLAMA
    )


def test_a_page_of_fp8_is_enlarged_to_hold_plain_values() -> None:
    """A token takes 2,048 bytes in fp8 and 4,096 plain: blocks of 32, pages of 64 KiB.

    Of NVFP4 it takes 2 x 8 x (64 + 8) = 1,152: cdiv(16 x 4,096, 16 x 1,152) = 4 blocks.
    """
    sizes = suiting_skipped(BlockSizes(block_size=16), FlashAttention(), CONTEXT)
    assert (32, 65536) == (sizes.block_size, sizes.skip_page_size_padded_bytes)
    packed = replace(CONTEXT, kv_cache_dtype="nvfp4")
    sizes = suiting_skipped(BlockSizes(block_size=16), FlashInfer(), packed)
    assert (64, 64 * 1152) == (sizes.block_size, sizes.skip_page_size_padded_bytes)


def test_layers_left_out_share_a_group_of_several_pages() -> None:
    """30 layers of 32 tokens x 2,048 bytes, two of 32 x 4,096."""
    told = replace(CONTEXT, skip_layers=("0", "31"))
    kernels = resolve_kernels(LLAMA, told)
    (only,) = group(kernels.specs)
    assert 32 == only.spec.block_size
    assert 30 * 32 * 2048 + 2 * 32 * 4096 == only.spec.page_size_bytes


def test_a_block_enlarged_too_far_is_refused() -> None:
    """TurboQuant takes 16, 32, 64 or 128 tokens and their multiples; 24 is none."""
    with pytest.raises(Refused, match="Aligned KV cache block size 24 is not"):
        check_aligned(16, BlockSizes(block_size=24), (TurboQuant(),), CONTEXT)
    check_aligned(24, BlockSizes(block_size=24), (TurboQuant(),), CONTEXT)
