"""Blocks, tokens, concurrency: the worked examples of vLLM's own planning code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.memory.kv_cache.capacity import StageCache, capacity, check
from planner.memory.kv_cache.kv_groups import LayerGroup, bytes_per_block, group
from planner.memory.kv_cache.kv_spec import (
    FullAttentionSpec,
    Request,
    UniformTypeKVCacheSpecs,
)
from planner.memory.kv_cache.layout import KVCacheLayout
from planner.memory.kv_cache.specs_of_states import SlidingWindowSpec
from planner.units import GIB


def llama(available_bytes: int, element_bytes: int = 2, layers: int = 32) -> StageCache:
    """Return Llama-3.1-8B's cache with a budget."""
    spec = FullAttentionSpec(
        block_size=16, num_kv_heads=8, head_size=128, element_bytes=element_bytes
    )
    return StageCache(
        groups=(LayerGroup(spec=spec, layers=tuple(range(layers))),),
        available_bytes=available_bytes,
    )


@pytest.mark.parametrize(
    (
        "gib",
        "element_bytes",
        "length",
        "blocks",
        "per_request",
        "tokens",
        "concurrency",
    ),
    [
        (50, 2, 131072, 25600, 8192, 409600, 3.125),
        (50, 1, 131072, 51200, 8192, 819200, 6.25),
        (5, 2, 1000, 2560, 63, 40634, 40.634920634920634),
    ],
)
def test_llama_matches_vllms_planning_code(
    gib: int,
    element_bytes: int,
    length: int,
    blocks: int,
    per_request: int,
    tokens: int,
    concurrency: float,
) -> None:
    """2 MiB a block in bfloat16; tokens = blocks / blocks per request x length."""
    stage = llama(gib * GIB, element_bytes)
    figures = capacity(stage.groups, stage.num_blocks, Request(max_model_len=length))
    assert (blocks, per_request, tokens) == (
        figures.num_gpu_blocks,
        figures.blocks_per_request,
        figures.kv_cache_size_tokens,
    )
    assert concurrency == figures.max_concurrency


def test_too_long_a_request_is_refused_with_the_length_that_fits() -> None:
    """10 GiB: 5,120 blocks, one of them the null block, 5,119 x 16 = 81,904 tokens."""
    error = check([llama(10 * GIB)], Request(max_model_len=131072))
    assert error is not None
    assert "max_model_len" == error.kind
    assert "(16.0 GiB KV cache is needed" in error.message
    assert "estimated maximum model length is 81904" in error.message


def test_no_room_for_any_block_is_another_error() -> None:
    """One block is the null block: a single block holds nothing."""
    error = check([llama(2 << 20)], Request(max_model_len=16))
    assert error is not None
    assert "no_kv" == error.kind
    assert error.message.startswith("No available memory for the cache blocks.")


def test_a_request_that_just_fits_is_accepted() -> None:
    """8,192 blocks and the null block."""
    exact = 8193 * 2097152
    assert check([llama(exact)], Request(max_model_len=131072)) is None
    assert check([llama(exact - 1)], Request(max_model_len=131072)) is not None


def test_layers_alike_make_one_group() -> None:
    """32 layers, one block table."""
    spec = FullAttentionSpec(
        block_size=16, num_kv_heads=8, head_size=128, element_bytes=2
    )
    (only,) = group(list(enumerate([spec] * 32)))
    assert 32 * 65536 == bytes_per_block([only], KVCacheLayout.LBNHC)
    assert () == group([])


def test_layers_of_two_sizes_make_one_uniform_group() -> None:
    """A search may leave layers with fewer KV heads (Nemotron)."""
    wide = FullAttentionSpec(
        block_size=16, num_kv_heads=8, head_size=128, element_bytes=2
    )
    slim = FullAttentionSpec(
        block_size=16, num_kv_heads=4, head_size=128, element_bytes=2
    )
    (only,) = group([(0, wide), (2, slim)])
    assert isinstance(only.spec, UniformTypeKVCacheSpecs)
    assert 2 == only.num_layers
    assert 65536 + 32768 == bytes_per_block([only], KVCacheLayout.LBNHC)


def hybrid(
    full: int, sliding: int, *, heads: int, head_size: int, window: int
) -> list[FullAttentionSpec | SlidingWindowSpec]:
    """Return sliding layers first, then full ones."""
    size = {
        "block_size": 16,
        "num_kv_heads": heads,
        "head_size": head_size,
        "element_bytes": 2,
    }
    return [
        *[SlidingWindowSpec(sliding_window=window, **size)] * sliding,
        *[FullAttentionSpec(**size)] * full,
    ]


@pytest.mark.parametrize(
    (
        "layers",
        "gib",
        "in_flight",
        "length",
        "sizes",
        "blocks",
        "per_request",
        "tokens",
    ),
    [
        (
            hybrid(10, 52, heads=16, head_size=128, window=1024),
            20,
            16384,
            131072,
            [9, 9, 9, 9, 8, 8, 10],
            16384,
            14726,
            145829,
        ),
        (
            hybrid(12, 12, heads=8, head_size=64, window=128),
            50,
            16384,
            131072,
            [12, 12],
            136533,
            9225,
            1939908,
        ),
        (
            hybrid(13, 12, heads=8, head_size=64, window=128),
            50,
            16384,
            131072,
            [12, 13],
            126030,
            9225,
            1790677,
        ),
    ],
    ids=["Gemma-3-27B", "gpt-oss-20b", "gpt-oss-20b and a draft layer"],
)
def test_hybrids_match_vllms_planning_code(
    layers, gib, in_flight, length, sizes, blocks, per_request, tokens
) -> None:
    """Groups of as many layers share one pool; each claims blocks of its own."""
    groups = group(list(enumerate(layers)))
    assert sizes == [g.num_layers for g in groups]
    stage = StageCache(groups=groups, available_bytes=gib * GIB)
    request = Request(max_model_len=length, max_in_flight_tokens=in_flight)
    figures = capacity(groups, stage.num_blocks, request)
    assert (blocks, per_request, tokens) == (
        figures.num_gpu_blocks,
        figures.blocks_per_request,
        figures.kv_cache_size_tokens,
    )


def test_without_the_hybrid_manager_windows_are_kept_whole() -> None:
    """One group of full attention for all layers."""
    layers = hybrid(12, 12, heads=8, head_size=64, window=128)
    (only,) = group(list(enumerate(layers)), has_hybrid_manager=False)
    assert isinstance(only.spec, FullAttentionSpec)
    assert 24 == only.num_layers


def test_a_stage_keeps_its_part_of_every_group() -> None:
    """Layers 0 to 11 of a model whose last 12 layers are full."""
    layers = hybrid(12, 12, heads=8, head_size=64, window=128)
    first = [g.on_stage(0, 12) for g in group(list(enumerate(layers)))]
    assert [12, 0] == [g.num_layers for g in first]


@given(st.integers(1, 200), st.integers(1, 200000))
def test_the_longest_request_fits_and_the_next_does_not(gib: int, limit: int) -> None:
    """The estimate in vLLM's error text is exact at its edge."""
    stage = llama(gib * GIB // 10)
    longest = stage.longest_request(limit, Request(max_model_len=limit))
    assert stage.needed_bytes(Request(max_model_len=longest)) <= max(
        stage.usable_bytes, 0
    )
    if longest < limit:
        assert (
            stage.needed_bytes(Request(max_model_len=longest + 1)) > stage.usable_bytes
        )
