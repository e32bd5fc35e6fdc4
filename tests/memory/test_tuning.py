"""What a first start takes to tune kernels outside of the compiler."""

from __future__ import annotations

import pytest

import planner
from planner.units import MIB

GIVEN = {
    "gpu": "GB10",
    "max_model_len": 161792,
    "max_num_seqs": 100,
    "max_num_batched_tokens": 2048,
    "enforce_eager": True,
    "trust_remote_code": True,
}


def peak(cache: str | None, version: str = "0.33.0") -> int:
    """Return the planned peak of Nemotron Cascade 2, whose first layer is Mamba 2's."""
    plan = planner.plan(
        "nvidia/Nemotron-Cascade-2-30B-A3B",
        vllm_version=version,
        **GIVEN,
        **({} if cache is None else {"compile_cache": cache}),
    )
    return plan.ranks[0].line("peak activation").size_bytes


@pytest.mark.parametrize("cache", ["cold", None])
def test_a_first_start_benchmarks_the_kernels_of_mamba_2(cache: str | None) -> None:
    """256 MiB, two states of 2,688, 10,304 projected and 4,096 put out, for 2,048.

    The workspace of the experts behind it stays: vLLM takes it off the peak.
    """
    values, workspace = 2 * 2688 + 10304 + 4096, 2048 * 2688 * 2
    assert 256 * MIB + 2048 * values * 2 - workspace == peak(cache)


def test_a_later_start_reads_from_disk_which_kernel_was_fastest() -> None:
    """Sampling is its peak, as in releases that were not read."""
    assert 14 * 100 * 131072 < peak("warm") < 256 * MIB
    assert peak("cold", "0.30.0") == peak("warm", "0.30.0")
