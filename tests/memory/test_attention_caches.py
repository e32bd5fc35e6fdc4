"""What a layer of attention keeps, by release."""

from typing import Any

import pytest

from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.memory.kv_cache.attention_backends import FlashAttention, TritonAttention
from planner.memory.kv_cache.attention_caches import attention_spec
from planner.memory.kv_cache.backend import CachePlace
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.flash_attention import for_mixed_head_sizes
from planner.memory.kv_cache.kv_spec import AttentionSpec, FullAttentionSpec
from planner.memory.kv_cache.specs_of_states import (
    ChunkedLocalAttentionSpec,
    SlidingWindowSpec,
)
from planner.models.caches import AttentionLayer
from tests.configs import gpu

B200 = gpu(compute_capability=(10, 0), device_name="NVIDIA B200")


def context(*release: int, device: GPU | None = None, **changes: Any) -> CacheContext:
    """One rank by the rules of a release."""
    where = device or gpu()
    layout = ParallelLayout(
        compute_capability=where.compute_capability,
        release=Release(release),  # type: ignore[arg-type]
    )
    return CacheContext(gpu=where, layout=layout, dtype="bfloat16", **changes)


def spec(*release: int, block_size: int = 16, **facts: Any) -> AttentionSpec:
    """The spec of a layer with a head of 64."""
    layer = AttentionLayer(num_heads=1, num_kv_heads=1, head_size=64, **facts)
    sizes = BlockSizes(block_size=block_size)
    place = CachePlace(TritonAttention(), context(*release), sizes)
    made = place.stored(attention_spec(layer, place))
    assert isinstance(made, AttentionSpec)
    return made


def test_chunks_were_kept_in_full_at_first() -> None:
    """Chunks of 128 tokens have a spec of their own from 0.10.0 on."""
    older = spec(0, 9, 2, attention_chunk_size=128)
    assert isinstance(older, FullAttentionSpec)
    newer = spec(0, 10, 0, attention_chunk_size=128)
    assert isinstance(newer, ChunkedLocalAttentionSpec)


@pytest.mark.parametrize(
    ("window", "release", "token_bytes"),
    [
        (None, (0, 13, 0), (64 + 64) * 2),
        (None, (0, 14, 0), (64 + 32) * 2),
        (8, (0, 19, 1), (64 + 64) * 2),
        (8, (0, 20, 0), (64 + 32) * 2),
    ],
)
def test_smaller_values_once_took_as_much_as_keys(
    window: int | None, release: tuple[int, int, int], token_bytes: int
) -> None:
    """Keys of 64, values of 32 elements of 2 bytes."""
    made = spec(*release, head_size_v=32, sliding_window=window)
    assert 16 * token_bytes == made.unpadded_page_size_bytes


@pytest.mark.parametrize(
    ("release", "expected"), [((0, 24, 0), 64), ((0, 25, 0), 16), ((0, 30, 0), 64)]
)
def test_windows_chose_their_blocks_in_three_ways(
    release: tuple[int, int, int], expected: int
) -> None:
    """As all layers; then the kernel's smallest; then what fills a page of 64."""
    made = spec(*release, block_size=64, sliding_window=8)
    assert isinstance(made, SlidingWindowSpec)
    assert expected == made.block_size


def test_heads_of_several_sizes_were_triton_s_at_first() -> None:
    """On Hopper FlashAttention 4 serves them from 0.24.0 on, unless asked."""
    older = for_mixed_head_sizes(context(0, 23, 0))
    assert "TRITON_ATTN" == older.requested_backend
    newer = for_mixed_head_sizes(context(0, 24, 0))
    assert (None, 4) == (newer.requested_backend, newer.flash_attention_version)


@pytest.mark.parametrize(("release", "expected"), [((0, 28, 0), 16), ((0, 29, 0), 128)])
def test_pages_for_heads_of_256_came_late(
    release: tuple[int, int, int], expected: int
) -> None:
    """FlashAttention 4 on B200."""
    here = context(*release, device=B200, head_size=256)
    assert expected == FlashAttention().preferred_block_size(16, here)


@pytest.mark.parametrize(("release", "expected"), [((0, 30, 0), 16), ((0, 31, 0), 64)])
def test_pages_for_fp8_and_heads_of_512_came_late(
    release: tuple[int, int, int], expected: int
) -> None:
    """FlashAttention 4 on H100."""
    here = context(*release, head_size=512, kv_cache_dtype="fp8")
    assert expected == FlashAttention().preferred_block_size(16, here)
