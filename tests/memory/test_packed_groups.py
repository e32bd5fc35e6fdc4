"""Layers with pages of several sizes that share a block."""

from planner.memory.kv_cache.kv_groups import bytes_per_block, group
from planner.memory.kv_cache.kv_spec import FullAttentionSpec
from planner.memory.kv_cache.layout import (
    KVCacheLayout,
    approximate_gcd,
    resolve_layout,
    supported_layouts,
)
from planner.memory.kv_cache.specs_of_states import SlidingWindowSpec

BLOCKS_OUTSIDE = KVCacheLayout.BLHNC


def test_the_chunk_that_pads_least_is_taken() -> None:
    """10 and 15: chunks of 5 pad nothing; at least 6, chunks of 8 pad 6 + 1 = 7 ...

    ... and chunks of 15 pad 5 + 0, which is the least.
    """
    assert 5 == approximate_gcd([10, 15])
    assert 15 == approximate_gcd([10, 15], lower_bound=6)


def test_a_window_of_smaller_pages_is_split_to_the_width_of_a_block() -> None:
    """2 full layers of 64 KiB: a block has 128 KiB, 8 windows of 16 KiB each.

    20 windows make cdiv(20, 8) = 3 groups: 7, 7 and 6.
    """
    full = FullAttentionSpec(
        block_size=16, num_kv_heads=8, head_size=128, element_bytes=2
    )
    small = SlidingWindowSpec(
        block_size=16,
        num_kv_heads=2,
        head_size=128,
        element_bytes=2,
        sliding_window=128,
    )
    layers = list(enumerate([full] * 2 + [small] * 20))
    groups = group(layers, layout=BLOCKS_OUTSIDE)
    assert [2, 7, 7, 6] == [g.num_layers for g in groups]
    assert 131072 == bytes_per_block(groups, BLOCKS_OUTSIDE)


def test_kernels_that_agree_on_none_of_a_kind_vote() -> None:
    """The first choice of most wins among those that all read."""
    outer = (KVCacheLayout.LBHNC, KVCacheLayout.BLHNC)
    assert outer == supported_layouts([None, outer])
    assert (KVCacheLayout.LBHNC,) == supported_layouts([outer, (KVCacheLayout.LBHNC,)])
    assert KVCacheLayout.LBNHC is supported_layouts([])[0]


def test_pages_of_two_shapes_need_whole_pages() -> None:
    """[L, H, B, N, C] spreads a page over the heads."""
    one = FullAttentionSpec(
        block_size=16, num_kv_heads=8, head_size=128, element_bytes=2
    )
    two = FullAttentionSpec(
        block_size=16, num_kv_heads=4, head_size=256, element_bytes=2
    )
    candidates = (KVCacheLayout.LHBNC, KVCacheLayout.LBHNC)
    assert KVCacheLayout.LHBNC is resolve_layout(candidates, [one, one])
    assert KVCacheLayout.LBHNC is resolve_layout(candidates, [one, two])
