"""A bound on speed stays one where requests share a prefix or have means."""

from dataclasses import replace

import pytest

import planner
from planner import Load

PLAIN = Load(prompt_tokens=3000, output_tokens=1000, requests=16)
TOKEN_BYTES = 36 * 8 * (128 + 128) * 2
"""Of Qwen3-8B: layers x KV heads x (key + value) x 2 bytes."""


def bound(load, **arguments):
    """The bound of Qwen3-8B on one H100."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100", load=load, **arguments)
    return planner.speed_bound(plan)


def test_what_requests_share_is_read_once_and_not_computed_again():
    """Of 2,000 tokens, 15 of 16 requests need read nothing in a step."""
    alone, shared = bound(PLAIN), bound(replace(PLAIN, shared_prefix_tokens=2000))
    bandwidth = planner.GPU.named("H100").memory_bandwidth_bytes_per_second
    saved = 15 * 2000 * TOKEN_BYTES / bandwidth

    now, before = shared.decode_at_least_seconds, alone.decode_at_least_seconds
    assert pytest.approx(saved) == before - now
    assert shared.prefill_at_least_seconds < alone.prefill_at_least_seconds / 2


def test_without_prefix_caching_nothing_is_found():
    """The bound is that of the whole prompts."""
    load = replace(PLAIN, shared_prefix_tokens=2000)
    off, alone = (bound(one, enable_prefix_caching=False) for one in (load, PLAIN))

    assert alone.decode_at_least_seconds == off.decode_at_least_seconds
    assert alone.prefill_at_least_seconds == off.prefill_at_least_seconds


def test_a_mean_is_what_is_generated():
    """1,000 and 200 tokens on average, as requests of that length alone."""
    varied = replace(PLAIN, mean_prompt_tokens=1000, mean_output_tokens=200)
    short = Load(prompt_tokens=1000, output_tokens=200, requests=16)
    mean = planner.speed_bound(bound(varied).plan, short)

    found = bound(varied)
    assert mean.decode_at_least_seconds == found.decode_at_least_seconds
    assert mean.request_at_least_seconds == found.request_at_least_seconds
