"""The KV cache of each pipeline stage, before its bytes are known.

It follows from the kernels alone, and is remembered under them: plans of one model that
differ in lengths, batches or utilization share it.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from planner.memory import kv_groups
from planner.memory.kernels import LayerKernels
from planner.memory.kv_cache import StageCache
from planner.memory.kv_groups import LayerGroup
from planner.memory.kv_spec import KVCacheSpec

_REMEMBERED = 256


@lru_cache(maxsize=_REMEMBERED)
def kernel_groups(
    kernels: LayerKernels, *, has_hybrid_manager: bool
) -> tuple[LayerGroup, ...]:
    """Return the KV cache groups of all layers."""
    return _groups(kernels, kernels.specs, has_hybrid_manager=has_hybrid_manager)


@lru_cache(maxsize=_REMEMBERED)
def empty_cache(
    kernels: LayerKernels, layers: range, *, has_hybrid_manager: bool
) -> StageCache:
    """Return the cache of the stage that holds these layers, without bytes yet."""
    release = kernels.release
    whole = kernel_groups(kernels, has_hybrid_manager=has_hybrid_manager)
    groups = tuple(g.on_stage(layers.start, layers.stop, release) for g in whole)
    specs: list[tuple[int, KVCacheSpec]] = []
    if not release.checks_groups:
        specs = [entry for entry in kernels.specs if entry[0] in layers]
    if not release.groups_all_ranks:
        groups = _groups(kernels, tuple(specs), has_hybrid_manager=has_hybrid_manager)
    return StageCache(
        groups=groups,
        available_bytes=0,
        layout=kernels.layout,
        release=release,
        checked_specs=tuple(Counter(spec for _, spec in specs).items()),
        checked_groups=() if release.checks_each_stage else whole,
    )


def _groups(
    kernels: LayerKernels,
    specs: tuple[tuple[int, KVCacheSpec], ...],
    *,
    has_hybrid_manager: bool,
) -> tuple[LayerGroup, ...]:
    return kv_groups.group(
        specs,
        has_hybrid_manager=has_hybrid_manager,
        layout=kernels.layout,
        release=kernels.release,
    )
