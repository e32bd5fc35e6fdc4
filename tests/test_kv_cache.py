"""Blocks, tokens, concurrency: the worked examples of vLLM's own planning code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.memory.kv_cache import StageCache, capacity, check
from planner.memory.kv_groups import LayerGroup, group
from planner.memory.kv_spec import FullAttentionSpec, UniformTypeKVCacheSpecs
from planner.units import GIB


def llama(available_bytes: int, element_bytes: int = 2, layers: int = 32) -> StageCache:
    """Return Llama-3.1-8B's cache with a budget."""
    spec = FullAttentionSpec(
        block_size=16, num_kv_heads=8, head_size=128, element_bytes=element_bytes
    )
    return StageCache(
        groups=(LayerGroup(spec=spec, num_layers=layers),),
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
    figures = capacity(stage.num_blocks, stage.blocks_per_request(length, 1), length)
    assert (blocks, per_request, tokens) == (
        figures.num_gpu_blocks,
        figures.blocks_per_request,
        figures.kv_cache_size_tokens,
    )
    assert concurrency == figures.max_concurrency


def test_too_long_a_request_is_refused_with_the_length_that_fits() -> None:
    """10 GiB: 5,120 blocks, one of them the null block, 5,119 x 16 = 81,904 tokens."""
    error = check([llama(10 * GIB)], 131072, 1)
    assert error is not None
    assert "max_model_len" == error.kind
    assert "(16.0 GiB KV cache is needed" in error.message
    assert "estimated maximum model length is 81904" in error.message


def test_no_room_for_any_block_is_another_error() -> None:
    """One block is the null block: a single block holds nothing."""
    error = check([llama(2 << 20)], 16, 1)
    assert error is not None
    assert "no_kv" == error.kind
    assert error.message.startswith("No available memory for the cache blocks.")


def test_a_request_that_just_fits_is_accepted() -> None:
    """8,192 blocks and the null block."""
    exact = 8193 * 2097152
    assert check([llama(exact)], 131072, 1) is None
    assert check([llama(exact - 1)], 131072, 1) is not None


def test_layers_alike_make_one_group() -> None:
    """32 layers, one block table."""
    spec = FullAttentionSpec(
        block_size=16, num_kv_heads=8, head_size=128, element_bytes=2
    )
    (only,) = group([spec] * 32)
    assert 32 * 65536 == only.bytes_per_block
    assert () == group([None, None])


def test_layers_of_two_sizes_make_one_uniform_group() -> None:
    """A search may leave layers with fewer KV heads (Nemotron)."""
    wide = FullAttentionSpec(
        block_size=16, num_kv_heads=8, head_size=128, element_bytes=2
    )
    slim = FullAttentionSpec(
        block_size=16, num_kv_heads=4, head_size=128, element_bytes=2
    )
    (only,) = group([wide, None, slim])
    assert isinstance(only.spec, UniformTypeKVCacheSpecs)
    assert (2, 65536 + 32768) == (only.num_layers, only.bytes_per_block)


@given(st.integers(1, 200), st.integers(1, 200000))
def test_the_longest_request_fits_and_the_next_does_not(gib: int, limit: int) -> None:
    """The estimate in vLLM's error text is exact at its edge."""
    stage = llama(gib * GIB // 10)
    longest = stage.longest_request(limit, 1)
    assert stage.needed_bytes(longest, 1) <= max(stage.usable_bytes, 0)
    if longest < limit:
        assert stage.needed_bytes(longest + 1, 1) > stage.usable_bytes
