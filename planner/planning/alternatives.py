"""The KV cache of a first and of later starts, and with either sampler.

No argument of vLLM's tells these apart, so a plan has the figures of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.engine.releases import Release
from planner.memory.account import Variant
from planner.memory.kv_cache import capacity
from planner.memory.kv_cache.kv_groups import LayerGroup
from planner.memory.kv_cache.kv_spec import Request
from planner.planning.result import Alternative
from planner.planning.stages import Stage
from planner.planning.verdict import limiting_cache


def alternatives(
    stages: Sequence[Stage],
    request: Request,
    whole: Sequence[LayerGroup],
    release: Release,
) -> tuple[Alternative, ...]:
    """Return what the KV cache is in either case; empty where nothing differs."""
    return tuple(
        _alternative(stages, request, whole, release, variant)
        for variant in _variants(stages)
    )


def _variants(stages: Sequence[Stage]) -> Iterator[Variant]:
    """Yield each argument and value once, of the stage where it differs most."""
    found: dict[tuple[str, str], Variant] = {}
    for stage in stages:
        for variant in stage.rank.variants:
            found.setdefault((variant.argument, variant.value), variant)
    yield from found.values()


def _alternative(
    stages: Sequence[Stage],
    request: Request,
    whole: Sequence[LayerGroup],
    release: Release,
    variant: Variant,
) -> Alternative:
    named = (variant.argument, variant.value)
    caches = [stage.with_variant(*named) for stage in stages]
    limiting = limiting_cache(caches)
    groups = whole if release.groups_all_ranks else limiting.groups
    figures = capacity.capacity(groups, limiting.num_blocks, request, release)
    sizes = [stage.rank.of(*named) for stage in stages]
    return Alternative(
        argument=variant.argument,
        value=variant.value,
        is_planned=not variant.more_bytes,
        starts=capacity.check(caches, request) is None,
        available_kv_cache_bytes=min(size for size, _low, _high in sizes),
        available_kv_cache_low_bytes=min(low for _size, low, _high in sizes),
        available_kv_cache_high_bytes=min(high for _size, _low, high in sizes),
        num_gpu_blocks=figures.num_gpu_blocks,
        kv_cache_size_tokens=figures.kv_cache_size_tokens,
        max_concurrency=figures.max_concurrency,
    )
