"""KV cache specs: bytes of a block, blocks of a request."""

from hypothesis import given
from hypothesis import strategies as st

from planner.memory.kv_cache.kv_spec import (
    FullAttentionSpec,
    Request,
    UniformTypeKVCacheSpecs,
)
from planner.memory.kv_cache.specs_of_states import SlidingWindowSpec


def spec(**changes: int) -> FullAttentionSpec:
    """Return Llama-3.1-8B's spec in bfloat16."""
    facts = {"block_size": 16, "num_kv_heads": 8, "head_size": 128, "element_bytes": 2}
    return FullAttentionSpec(**{**facts, **changes})


def test_a_page_holds_key_and_value_of_a_block() -> None:
    """2 x 16 tokens x 8 heads x 128 x 2 bytes = 65,536."""
    assert 65536 == spec().page_size_bytes


def test_fp8_halves_the_page() -> None:
    """One byte instead of two."""
    assert 32768 == spec(element_bytes=1).page_size_bytes


def test_a_request_takes_whole_blocks() -> None:
    """1,000 tokens need 63 blocks of 16."""
    assert 63 == spec().blocks(Request(max_model_len=1000))


def test_decode_context_parallel_shares_the_tokens() -> None:
    """131,072 tokens over 8 ranks: 16,384 each, 1,024 blocks."""
    request = Request(max_model_len=131072, decode_context_parallel_size=8)
    assert 1024 == spec().blocks(request)


def window(**changes: int) -> SlidingWindowSpec:
    """Return a layer of Gemma-3-27B with its window of 1,024 tokens."""
    facts = {
        "block_size": 16,
        "num_kv_heads": 16,
        "head_size": 128,
        "element_bytes": 2,
        "sliding_window": 1024,
    }
    return SlidingWindowSpec(**{**facts, **changes})


def test_a_window_keeps_the_tokens_in_flight_as_well() -> None:
    """1,023 + 2 x 8,192 tokens = 17,407: 1,088 blocks and one begun in the middle."""
    request = Request(max_model_len=131072, max_in_flight_tokens=2 * 8192)
    assert 1089 == window().blocks(request)


def test_a_window_never_keeps_more_than_the_request() -> None:
    """1,000 tokens: 63 blocks and one."""
    request = Request(max_model_len=1000, max_in_flight_tokens=2 * 8192)
    assert 64 == window().blocks(request)


def test_layers_of_different_size_add_up_in_one_group() -> None:
    """Their pages are one block together."""
    mixed = UniformTypeKVCacheSpecs.of([spec(), spec(num_kv_heads=4)])
    assert 65536 + 32768 == mixed.page_size_bytes
    assert 63 == mixed.blocks(Request(max_model_len=1000))


@given(st.integers(1, 1 << 20), st.sampled_from([16, 32, 64, 128]))
def test_more_tokens_never_take_fewer_bytes(tokens: int, block_size: int) -> None:
    """A request only grows."""
    layer = spec(block_size=block_size)
    assert layer.blocks(Request(max_model_len=tokens)) <= layer.blocks(
        Request(max_model_len=tokens + 1)
    )
