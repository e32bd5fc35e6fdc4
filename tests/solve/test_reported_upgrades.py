"""What upgrades did to servers, as their users reported it, beside `upgrade()`.

tests/data/upgrades.jsonl has one start under two releases in each row: issues of
vLLM's, and pairs of published logs. docs/upgrade.md shows the first six.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.planning.inputs import Inputs
from planner.units import GIB

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "upgrades.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
IDS = [row["id"] for row in ROWS]
MEASURED = [row for row in ROWS if "kv_gib" in row]
_LOG_GIB = 0.01
"""A log's rounding, at both ends."""


@cache
def upgraded(name: str) -> planner.Upgrade:
    """Return the upgrade of a row."""
    row = ROWS[IDS.index(name)]
    inputs = Inputs(
        model=row["model"],
        gpu=row["gpu"],
        vllm_version=row["from"],
        engine_args=row["args"],
    )
    return planner.upgrade(inputs, to=row["to"])


def kv_cache(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both plans as plain values."""
    found = upgraded(name)
    assert found.after is not None
    return found.before.to_dict(), found.after.to_dict()


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_the_direction_is_the_one_that_was_reported(row: dict[str, Any]) -> None:
    """Of what its users looked at: host memory in one, else tokens of the KV cache."""
    looked_at = "host memory" if row["id"] == "host-offload" else "kv_cache_size_tokens"
    (change,) = [one for one in upgraded(row["id"]).changes if one.name == looked_at]
    assert change.change * row["direction"] > 0


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_the_rule_that_did_it_is_named(row: dict[str, Any]) -> None:
    """In words for users, with the release that it came with and where it is read."""
    rules = [
        cause.rule
        for release, cause in upgraded(row["id"]).causes
        if cause.rule is not None and release == row["release"]
    ]
    (rule,) = [one for one in rules if row["rule"] in one.what]
    assert "vLLM" in rule.source


def test_a_first_start_in_awq_is_given_back_the_block_of_the_embeddings() -> None:
    """A block of 1,188 MiB for 151,936 x 4,096 x 2 bytes, less cuBLAS's workspace.

    The published starts differ by 1.09 GiB; their draft is not known, nor planned.
    """
    (change,) = [
        one for one in upgraded("awq-5070ti").changes if one.name == "KV cache"
    ]
    assert change.change / GIB == pytest.approx((1188 - 32) / 1024, abs=0.001)
    assert change.change / GIB == pytest.approx(1.09, abs=0.1)


@pytest.mark.parametrize("row", MEASURED, ids=[row["id"] for row in MEASURED])
def test_the_measured_size_is_within_the_range(row: dict[str, Any]) -> None:
    """Of the difference: from the low end less the high end to the opposite."""
    before, after = kv_cache(row["id"])
    low, high = "available_kv_cache_low_bytes", "available_kv_cache_high_bytes"
    measured = row["kv_gib"][1] - row["kv_gib"][0]
    least = (after[low] - before[high]) / GIB - _LOG_GIB
    most = (after[high] - before[low]) / GIB + _LOG_GIB
    assert least <= measured <= most


def test_gemma_4_has_ten_times_the_tokens_in_the_same_memory() -> None:
    """The issue's figures are rounded to thousands, and its length is not stated."""
    before, after = kv_cache("gemma-4-tokens")
    tokens = [one["kv_cache_size_tokens"] for one in (before, after)]
    for planned, reported in zip(tokens, [55_000, 525_000], strict=True):
        assert planned == pytest.approx(reported, rel=0.05)


def test_gemma_4_needs_what_vllm_said_that_it_needs() -> None:
    """70.79 GiB and 58,368 tokens are vLLM's own words in the issue.

    A block of all 10 layers of a group has 2.5 MiB; 8,192 of them hold the full
    layers' 262,144 tokens, and each of five groups of windows holds 1,023 + 2 x 32,768.
    """
    _before, after = kv_cache("gemma-4-windows")
    blocks = 8_192 + 5 * (-(-(1_023 + 2 * 32_768) // 16) + 1)
    assert f"{blocks * 2.5 / 1024:.2f}" == "70.79"
    assert "70.79 GiB KV cache is needed" in after["error"]["message"]
    assert "estimated maximum model length is 58368" in after["error"]["message"]


def test_offloaded_weights_take_host_memory_from_0_28() -> None:
    """Before, the second runner ignored the argument: the weights stayed on the GPU."""
    changes = {one.name: one.change for one in upgraded("host-offload").changes}
    assert changes["host memory"] > 8 * GIB
    assert changes["weights"] < -8 * GIB
    assert changes["KV cache"] == -changes["weights"]


def test_the_page_shows_them(root: Path) -> None:
    """Each of the first six, with its issue or its logs, and its figures."""
    page = (root / "docs" / "upgrade.md").read_text(encoding="utf-8")
    for row in ROWS[:6]:
        before, after = kv_cache(row["id"])
        assert f"{row['from']} to {row['to']}" in page
        for one in (before, after):
            assert f"{one['kv_cache_size_tokens']:,}" in page
        if row["source"].startswith("https"):
            assert row["source"] in page
