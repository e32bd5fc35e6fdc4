"""The beginning of prompts that an engine stores once for all requests that run."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from planner.memory.kv_cache.kv_groups import LayerGroup
from planner.memory.kv_cache.kv_spec import FullAttentionSpec, Request
from planner.values import frozen


@frozen
class SharedPrefix:
    """Which beginnings of prompts an engine stores once for all requests that run."""

    unit_tokens: int
    """Tokens of which the stored beginning is a multiple."""
    unit_blocks: int
    """Blocks of so many tokens, over all groups."""
    units_dropped: int = 0
    """Units at its end that each request computes again, for a draft to read."""

    def blocks(self, tokens: int) -> int:
        """Return the blocks that requests share, of which so many tokens are alike."""
        units = tokens // self.unit_tokens - self.units_dropped
        return max(units, 0) * self.unit_blocks


def shared_prefix(
    groups: Sequence[LayerGroup], request: Request, *, is_drafted: bool
) -> SharedPrefix | None:
    """Return what requests that run share; None where no beginning is sure to be found.

    Running requests use the blocks of their beginning, so that vLLM finds and cannot
    evict them, where all layers store every token. Windows and states of a beginning
    are free as soon as a request is beyond it: they may be evicted, and without them a
    request with the same beginning computes and stores all of it again.

    Args:
        groups: of all layers, under prefix caching.
        request: for its decode context parallel size.
        is_drafted: whether a draft reads the target's hidden states.

    Source: vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py` FullAttentionManager
    and SlidingWindowManager find_longest_cache_hit, remove_skipped_blocks;
    `v1/core/kv_cache_coordinator.py` UnitaryKVCacheCoordinator.
    """
    specs = [spec for group in groups for spec, _ in group.counted_specs]
    if not specs or any(not isinstance(one, FullAttentionSpec) for one in specs):
        return None
    sizes = []
    for group in groups:
        ranks = request.decode_context_parallel_size if group.spec.dcp_sharded else 1
        sizes.append(group.spec.block_size * ranks)
    unit = lcm(*sizes)
    return SharedPrefix(
        unit_tokens=unit,
        unit_blocks=sum(unit // size for size in sizes),
        units_dropped=int(is_drafted),
    )
