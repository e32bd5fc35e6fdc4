"""How releases grouped the layers, and reckoned what one request needs."""

from collections import Counter
from typing import Any

import pytest

import planner
from planner.engine.releases import Release
from planner.engine.releases.shared import CHECKS_LEAST_STAGE
from planner.errors import Refused
from planner.memory.kv_cache.capacity import StageCache, capacity, check
from planner.memory.kv_cache.kv_groups import LayerGroup, bytes_per_block, group
from planner.memory.kv_cache.kv_spec import FullAttentionSpec, Request
from planner.memory.kv_cache.layout import KVCacheLayout
from planner.memory.kv_cache.specs_of_states import SlidingWindowSpec
from planner.units import GIB
from tests.configs import LLAMA_8B, architecture


def llama(available_bytes: int, element_bytes: int = 2, layers: int = 32) -> StageCache:
    """Return Llama-3.1-8B's cache with a budget."""
    spec = FullAttentionSpec(
        block_size=16, num_kv_heads=8, head_size=128, element_bytes=element_bytes
    )
    return StageCache(
        groups=(LayerGroup(spec=spec, layers=tuple(range(layers))),),
        available_bytes=available_bytes,
    )


def of(*layers: tuple[str, int], heads: int = 1, block_size: int = 16) -> list[Any]:
    """So many layers of each kind, with 1 KiB a block of 16 tokens and head.

    full: all tokens; window: 17 of them.
    """
    facts: dict[str, Any] = {
        "block_size": block_size,
        "num_kv_heads": heads,
        "head_size": 16,
        "element_bytes": 2,
    }
    kinds = {
        "full": FullAttentionSpec(**facts),
        "window": SlidingWindowSpec(**facts, sliding_window=17),
    }
    return [kinds[kind] for kind, count in layers for _ in range(count)]


def grouped(layers: list[Any], *release: int) -> tuple[LayerGroup, ...]:
    """Group layers by the rules of a release."""
    return group(list(enumerate(layers)), release=Release(release))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("release", "windows", "sizes"),
    [
        ((0, 11, 0), 6, [3, 3, 5]),
        ((0, 12, 0), 6, [6, 5]),
        ((0, 17, 1), 7, [4, 3, 5]),
        ((0, 18, 0), 7, [7, 5]),
        ((0, 18, 0), 8, [4, 4, 5]),
    ],
)
def test_two_kinds_are_padded_to_one_size_where_they_are_close(
    release: tuple[int, ...], windows: int, sizes: list[int]
) -> None:
    """Beside 5 full layers: never, then below 1.25, then below 1.5 times as many."""
    groups = grouped(of(("window", windows), ("full", 5)), *release)
    assert sizes == [g.num_layers for g in groups]


def test_pages_of_two_sizes_came_to_be_made_alike() -> None:
    """1 and 2 heads: not at all, then by blocks of 32 tokens beside 16."""
    layers = [*of(("window", 2)), *of(("full", 2), heads=2)]
    with pytest.raises(Refused, match="NotImplementedError"):
        grouped(layers, 0, 11, 2)
    window, full = grouped(layers, 0, 12, 0)
    assert (32, 16) == (window.spec.block_size, full.spec.block_size)


def test_pages_that_do_not_divide_came_to_be_padded() -> None:
    """2 and 3 heads: refused until 0.24.0, then 3 KiB for both."""
    layers = [*of(("window", 2), heads=2), *of(("full", 2), heads=3)]
    with pytest.raises(Refused, match="Cannot unify by adjusting block_size"):
        grouped(layers, 0, 23, 0)
    window, full = grouped(layers, 0, 24, 0)
    assert 3072 == window.spec.page_size_bytes == full.spec.page_size_bytes


def test_sizes_of_one_kind_came_to_share_a_group() -> None:
    """Full attention with 1 and 2 heads: one group from 0.11.0 on."""
    layers = [*of(("full", 1)), *of(("full", 1), heads=2)]
    with pytest.raises(Refused, match="NotImplementedError"):
        grouped(layers, 0, 10, 2)
    (only,) = grouped(layers, 0, 11, 0)
    assert 3072 == only.spec.page_size_bytes


def test_a_stage_once_paid_for_the_sizes_of_all_stages() -> None:
    """1 and 2 KiB on two stages: 3 KiB a block until 0.16.0, then 1 and 2."""
    (only,) = grouped([*of(("full", 1)), *of(("full", 1), heads=2)], 0, 11, 0)
    older, newer = (
        [
            bytes_per_block((only.on_stage(n, n + 1, release),), KVCacheLayout.LBNHC)
            for n in (0, 1)
        ]
        for release in (Release((0, 16, 0)), Release((0, 17, 0)))
    )
    assert ([3072, 3072], [1024, 2048]) == (older, newer)


def test_windows_kept_whole_that_differ_were_refused_in_other_words() -> None:
    """Windows of 1 and 2 heads without full attention."""
    layers = [*of(("window", 1)), *of(("window", 1), block_size=32)]
    for number, words in (
        ((0, 26, 0), "Hybrid KV cache manager is disabled but failed to convert"),
        ((0, 27, 0), "Failed to promote local KV cache specs"),
    ):
        with pytest.raises(Refused, match=words):
            group(
                list(enumerate(layers)),
                has_hybrid_manager=False,
                release=Release(number),
            )


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        # 2 layers x 3 blocks of windows + 3 x 100 of full attention
        ((0, 13, 0), 306 * 1024),
        # the first group alone: 2 layers x 3 blocks
        ((0, 14, 0), 2 * 3 * 1024),
        ((0, 18, 1), 2 * 3 * 1024),
        # 2 layers x (3 + 100 + 100), as the third full layer is padded to two
        ((0, 19, 0), 2 * 203 * 1024),
    ],
)
def test_one_request_was_reckoned_in_three_ways(
    release: tuple[int, int, int], expected: int
) -> None:
    """1,600 tokens are 100 blocks; a window of 17 with 16 in flight is 2 + 1."""
    layers = of(("window", 2), ("full", 3))
    stage = StageCache(
        groups=grouped(layers, *release),
        available_bytes=GIB,
        release=Release(release),
        checked_specs=tuple(Counter(layers).items()),
    )
    request = Request(max_model_len=1600, max_in_flight_tokens=16)
    assert expected == stage.needed_bytes(request)


def test_the_smallest_stage_was_checked_with_the_layers_of_all() -> None:
    """Two stages of 16 of Llama's 32 layers: 100 blocks of 1 or 2 MiB."""
    whole = llama(0).groups
    for number, kinds in (((0, 16, 0), ["max_model_len"]), ((0, 17, 0), [])):
        release = Release(number)
        stages = [
            StageCache(
                groups=(whole[0].on_stage(begin, begin + 16, release),),
                available_bytes=left << 20,
                release=release,
                checked_groups=whole if release.has(CHECKS_LEAST_STAGE) else (),
            )
            for begin, left in ((0, 300), (16, 150))
        ]
        error = check(stages, Request(max_model_len=1600))
        assert kinds == ([] if error is None else [error.kind])


def test_tokens_were_whole_blocks_shared_by_the_groups() -> None:
    """1,001 blocks: 500 x 16 for two groups, then concurrency x length."""
    groups = grouped(of(("window", 2), ("full", 2)), 0, 20, 0)
    request = Request(max_model_len=1600, max_in_flight_tokens=16)
    older, newer = (
        capacity(groups, 1001, request, Release(number)).kv_cache_size_tokens
        for number in ((0, 20, 0), (0, 20, 1))
    )
    assert (8000, 1001 * 1600 // 103) == (older, newer)


def test_blocks_that_are_set_were_checked_by_the_memory_there_is() -> None:
    """4,000 blocks x 16 tokens on an L4: too much for it, if anyone looks."""
    settings: dict[str, Any] = {"max_model_len": 60000, "num_gpu_blocks_override": 4000}
    model = architecture(LLAMA_8B)
    older, newer = (
        planner.plan(model, "L4", vllm_version=version, **settings)
        for version in ("0.20.0", "0.20.1")
    )
    assert older.error is not None
    assert "max_model_len" == older.error.kind
    assert newer.fits
    assert 4000 == older.num_gpu_blocks == newer.num_gpu_blocks
