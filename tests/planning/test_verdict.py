"""Fits, does not fit, or too close to call."""

import planner
from planner.planning.result import Outcome
from tests.configs import LLAMA_8B, architecture

_BYTES_PER_TOKEN = 2 * 32 * 8 * 128 * 2  # K and V x layers x heads x head size x bf16


def plan(**settings: object) -> planner.Plan:
    """Llama-3.1-8B on an L4, whose 24 GB leave a few GiB for the KV cache."""
    return planner.plan(architecture(LLAMA_8B), "L4", **settings)  # type: ignore[arg-type]


def length_at(size_bytes: int) -> int:
    """Tokens that take so many bytes."""
    return size_bytes // _BYTES_PER_TOKEN


def test_a_request_within_the_whole_range_fits() -> None:
    """1,024 tokens take 128 MiB."""
    assert plan(max_model_len=1024).outcome is Outcome.FITS
    assert plan(max_model_len=1024).fits


def test_a_request_inside_the_range_is_too_close_to_call() -> None:
    """It says what is needed, what may be left, and which length is safe."""
    rank = plan(max_model_len=1024).ranks[0]
    low, middle = rank.available_kv_cache_low_bytes, rank.available_kv_cache_bytes
    high = rank.available_kv_cache_high_bytes
    assert low < middle < high

    below = plan(max_model_len=length_at((low + middle) // 2))
    assert below.outcome is Outcome.TOO_CLOSE
    assert not below.fits
    assert below.error is not None
    assert below.error.kind == "too_close"
    assert f"max_model_len={below.max_model_len_that_fits} starts" in (
        below.error.message
    )

    above = plan(max_model_len=length_at((middle + high) // 2))
    assert above.outcome is Outcome.TOO_CLOSE
    assert above.error is not None
    assert above.error.kind == "max_model_len"  # what vLLM says at the estimate


def test_a_request_beyond_the_range_does_not_fit() -> None:
    """vLLM's own words, and the verdict is certain."""
    high = plan(max_model_len=1024).ranks[0].available_kv_cache_high_bytes
    over = plan(max_model_len=length_at(high) + 16)
    assert over.outcome is Outcome.DOES_NOT_FIT


def test_a_fixed_kv_cache_has_no_range() -> None:
    """kv_cache_memory_bytes decides exactly."""
    exact = plan(max_model_len=8192, kv_cache_memory_bytes=8192 * _BYTES_PER_TOKEN)
    assert exact.outcome is Outcome.DOES_NOT_FIT  # the null block is missing
    one_more = 8208 * _BYTES_PER_TOKEN
    assert plan(max_model_len=8192, kv_cache_memory_bytes=one_more).fits


def test_older_releases_do_not_set_the_null_block_aside() -> None:
    """From 0.29.0 on one block is left out of the check."""
    exact = 8192 * _BYTES_PER_TOKEN
    settings = {"max_model_len": 8192, "kv_cache_memory_bytes": exact}
    assert plan(vllm_version="0.28.0", **settings).fits
    assert not plan(vllm_version="0.29.0", **settings).fits


def test_the_spread_of_independent_lines_adds_in_squares() -> None:
    """Lines that are off by 3 and by 4 put the sum off by 5, not by 7."""
    rank = plan(max_model_len=1024, compile_cache="warm").ranks[0]
    used = [line for line in rank.lines if line.name != "KV cache"]
    above = sum((line.high_bytes - line.size_bytes) ** 2 for line in used)
    spread = rank.available_kv_cache_bytes - rank.available_kv_cache_low_bytes
    assert spread**2 <= above < (spread + 1) ** 2
