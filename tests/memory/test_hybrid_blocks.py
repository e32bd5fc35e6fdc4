"""Blocks of attention grow until their pages hold the states of a layer."""

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engine.devices import gpu_named
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.memory.kv_cache.backend import AttentionBackend
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.kv_spec import MultipleOf
from planner.memory.kv_cache.mamba_caches import aligned
from planner.models.states import GatedDeltaNetState, Mamba1State, StateLayer

QWEN3_NEXT = GatedDeltaNetState(
    num_k_heads=16, num_v_heads=32, head_k_dim=128, head_v_dim=128, conv_kernel=4
)
"""(8,192 x 3 + 32 x 128 x 128) x 2 bytes = 1,097,728."""
SMALL = Mamba1State(intermediate_size=100, state_size=4, conv_kernel=4)
"""100 x 3 + 100 x 4 = 700 values."""


class Sixteens(AttentionBackend):
    """Blocks in multiples of 16."""

    name: ClassVar[str] = "SIXTEENS"
    block_sizes = (MultipleOf(base=16),)


class FortyEights(AttentionBackend):
    """Blocks in multiples of 48."""

    name: ClassVar[str] = "FORTYEIGHTS"
    block_sizes = (MultipleOf(base=48),)


class Latent(Sixteens):
    """Multi-head latent attention."""

    is_mla = True


def context(gpu: str = "A100", **changes: object) -> CacheContext:
    """One rank in bfloat16 with prefix caching."""
    plain = CacheContext(
        gpu=gpu_named(gpu),
        layout=ParallelLayout(),
        dtype="bfloat16",
        max_model_len=5000,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def sizes(
    layer: StateLayer,
    token_bytes: int,
    where: CacheContext,
    block_size: int = 16,
    backends: tuple[AttentionBackend, ...] = (Sixteens(),),
) -> BlockSizes:
    """What follows for one kind of layer."""
    start = BlockSizes(block_size=block_size)
    return aligned(start, [layer], backends, token_bytes, where)


def test_qwen3_next_on_an_a100() -> None:
    """A token takes 2 x 2 x 256 x 2 = 2,048 bytes, so 1,097,728 are 536 tokens.

    Rounded up to 16: 544, a page of 1,114,112 bytes.
    """
    found = sizes(QWEN3_NEXT, 2048, context())
    assert (544, 544) == (found.block_size, found.mamba_block_size)
    assert 1_114_112 == found.mamba_page_size_padded_bytes
    assert not found.has_prefill_checkpoints


def test_saved_states_want_blocks_of_64() -> None:
    """On an H100 FlashInfer saves states: 576 tokens."""
    found = sizes(QWEN3_NEXT, 2048, context("H100"))
    assert 576 == found.block_size
    assert found.has_prefill_checkpoints


def test_without_prefix_caching_states_have_blocks_of_their_own() -> None:
    """Attention keeps 544, the states of a request one block of 5,000 tokens."""
    found = sizes(QWEN3_NEXT, 2048, context("H100", has_prefix_caching=False))
    assert (544, 5000) == (found.block_size, found.mamba_block_size)


def test_a_larger_block_of_the_users_stays() -> None:
    """1,024 tokens hold the states already; the page is padded to theirs."""
    found = sizes(QWEN3_NEXT, 2048, context(), block_size=1024)
    assert (1024, 1024 * 2048) == (
        found.block_size,
        found.mamba_page_size_padded_bytes,
    )


def test_pages_that_are_equal_need_no_padding() -> None:
    """1,400 bytes at 14 a token: 100 tokens, 112 in sixteens, so 1,568 bytes.

    With 5 states a channel there are 800 values, and 1,600 bytes at 100 are just 16.
    """
    padded = sizes(SMALL, 14, context())
    assert (112, 1568) == (padded.block_size, padded.mamba_page_size_padded_bytes)
    exact = replace(SMALL, state_size=5)
    assert sizes(exact, 100, context()).mamba_page_size_padded_bytes is None


def test_latent_attention_wants_blocks_of_128() -> None:
    """1,400 bytes at 10 a token are 140 tokens: two times 128."""
    assert 256 == sizes(SMALL, 10, context(), backends=(Latent(),)).block_size


def test_all_kernels_must_take_the_block() -> None:
    """100 tokens: 112 in sixteens, 144 in both sixteens and forty-eights."""
    both = (Sixteens(), FortyEights())
    assert 144 == sizes(SMALL, 14, context(), backends=both).block_size


def test_without_attention_nothing_grows() -> None:
    """Mamba alone keeps one state per request."""
    found = sizes(SMALL, 0, context(has_prefix_caching=False), backends=())
    assert (16, 5000, None) == (
        found.block_size,
        found.mamba_block_size,
        found.mamba_page_size_padded_bytes,
    )


@given(token_bytes=st.integers(1, 4096), gpu=st.sampled_from(["A100", "H100"]))
def test_a_page_always_holds_the_states(token_bytes: int, gpu: str) -> None:
    """And the next smaller block would not, unless it is the first."""
    found = sizes(QWEN3_NEXT, token_bytes, context(gpu))
    step = 64 if gpu == "H100" else 16
    assert found.block_size * token_bytes >= 1_097_728
    assert 0 == found.block_size % step
    assert (found.block_size - step) * token_bytes < 1_097_728


def older(*release: int, gpu: str = "A100", **changes: Any) -> CacheContext:
    """The same with the rules of a release, without prefix caching."""
    layout = ParallelLayout(release=Release(release))  # type: ignore[arg-type]
    return context(gpu, layout=layout, has_prefix_caching=False, **changes)


def test_saved_states_did_not_matter_before() -> None:
    """On an H100 544 tokens until 0.32.0, then 576."""
    before = replace(older(0, 32, 0, gpu="H100"), has_prefix_caching=True)
    assert 544 == sizes(QWEN3_NEXT, 2048, before).block_size


def test_latent_attention_once_took_blocks_of_64() -> None:
    """140 tokens: 192 until 0.26.0, then 256."""
    for release, expected in (((0, 19, 1), 192), ((0, 26, 0), 192), ((0, 27, 0), 256)):
        found = sizes(SMALL, 10, older(*release), 64, (Latent(),))
        assert expected == found.block_size


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ((0, 11, 0), 112),
        ((0, 11, 1), 128),
        ((0, 17, 1), 128),
        ((0, 18, 0), 112),
    ],
)
def test_wide_heads_on_blackwell_took_multiples_of_32_for_a_while(
    release: tuple[int, int, int], expected: int
) -> None:
    """1,400 bytes at 14 a token are 100 tokens."""
    where = older(*release, gpu="B200", head_size=256)
    assert expected == sizes(SMALL, 14, where).block_size


def test_blocks_once_heeded_no_kernel() -> None:
    """100 tokens in forty-eights: 112 until 0.19.1, then 144."""
    for release, expected in (((0, 19, 1), 112), ((0, 20, 0), 144)):
        found = sizes(SMALL, 14, older(*release), backends=(FortyEights(),))
        assert expected == found.block_size
