"""Blocks, tokens and concurrency from a budget, and vLLM's two refusals.

Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` get_kv_cache_configs and
_check_enough_kv_cache_memory; `v1/core/kv_cache_utils.py` get_kv_cache_capacity.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

from planner.memory import kv_errors
from planner.memory.kv_groups import LayerGroup, blocks_per_request, bytes_per_block
from planner.memory.kv_layout import KVCacheLayout
from planner.memory.kv_spec import KVCacheSpec, Request
from planner.releases import NEWEST_RELEASE, Release
from planner.result import VLLMError


@dataclass(frozen=True, kw_only=True)
class StageCache:
    """The KV cache of one pipeline stage."""

    groups: tuple[LayerGroup, ...]
    available_bytes: int
    layout: KVCacheLayout = KVCacheLayout.LBNHC
    release: Release = NEWEST_RELEASE
    num_gpu_blocks_override: int | None = None
    """Blocks whatever is available, where that is checked all the same."""
    checked_specs: tuple[tuple[KVCacheSpec, int], ...] = ()
    """Each spec of its layers, before grouping, with the number of layers."""
    checked_groups: tuple[LayerGroup, ...] = ()
    """Groups that one request is reckoned by, where that is not its own."""

    @cached_property
    def bytes_per_block(self) -> int:
        """Bytes of one block on a rank; the groups share one pool of blocks."""
        return bytes_per_block(self.groups, self.layout)

    @cached_property
    def counted_groups(self) -> tuple[tuple[KVCacheSpec, int], ...]:
        """Each spec of its groups with the number of groups that have it."""
        return tuple(Counter(group.spec for group in self.groups).items())

    def blocks(self, request: Request) -> int:
        """Blocks that one request takes over all groups."""
        return sum(n * spec.blocks(request) for spec, n in self.counted_groups)

    @property
    def num_blocks(self) -> int:
        """Whole blocks that fit; 1 without any layer that keeps a cache."""
        if self.num_gpu_blocks_override is not None:
            return self.num_gpu_blocks_override
        if not self.bytes_per_block:
            return 1
        return max(self.available_bytes, 0) // self.bytes_per_block

    @property
    def usable_bytes(self) -> int:
        """Bytes that requests may use: block 0 is vLLM's null block."""
        if not self.release.sets_null_block_aside:
            return self.available_bytes
        return self.available_bytes - self.bytes_per_block

    def holding(self, available_bytes: int) -> StageCache:
        """Return the same layers with other bytes for them."""
        # These depend on the layers alone, and go along.
        remembered = {
            "bytes_per_block": self.bytes_per_block,
            "counted_groups": self.counted_groups,
        }
        other = copy(self)
        vars(other).update(remembered, available_bytes=available_bytes)
        return other

    def needed_bytes(self, request: Request) -> int:
        """Bytes that one request needs on a rank.

        Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py`
        _max_memory_usage_bytes_from_groups; 0.13.0 `v1/core/kv_cache_utils.py`
        max_memory_usage_bytes; 0.14.0 to 0.18.1 the same,
        _max_memory_usage_bytes_from_groups.
        """
        if not self.release.checks_groups and self.checked_specs:
            return sum(
                count * spec.page_size_bytes * spec.blocks(request)
                for spec, count in self.checked_specs
            )
        if self.groups and not self.release.checks_all_groups:
            groups = self.checked_groups or self.groups
            blocks = blocks_per_request(groups[:1], request)
            return bytes_per_block(groups, self.layout) * blocks
        return self.bytes_per_block * self.blocks(request)

    def longest_request(self, limit: int, request: Request) -> int:
        """Largest length up to `limit` that the usable bytes hold; 0 when none does."""
        usable = self.usable_bytes

        def needed(length: int) -> int:
            return self.needed_bytes(request.of_length(length))

        if needed(limit) <= usable:
            return limit
        return bisect_right(range(1, limit), usable, key=needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What the KV cache holds, as vLLM logs it."""

    num_gpu_blocks: int
    blocks_per_request: int
    max_concurrency: float
    kv_cache_size_tokens: int


def capacity(
    groups: Sequence[LayerGroup],
    num_gpu_blocks: int,
    request: Request,
    release: Release = NEWEST_RELEASE,
) -> Capacity:
    """Return the figures of vLLM's "GPU KV cache size" line.

    Source: vLLM 0.20.0 `v1/core/kv_cache_utils.py` _report_kv_cache_config (blocks);
    0.20.1 the same (concurrency).
    """
    needed = blocks_per_request(groups, request)
    concurrency = num_gpu_blocks / needed if needed else 0.0
    tokens = int(concurrency * request.max_model_len)
    if not release.counts_tokens_by_concurrency and groups:
        smallest = min(group.spec.block_size for group in groups)
        per_rank = num_gpu_blocks // len(groups) * smallest
        tokens = per_rank * request.decode_context_parallel_size
    return Capacity(
        num_gpu_blocks=num_gpu_blocks,
        blocks_per_request=needed,
        max_concurrency=concurrency,
        kv_cache_size_tokens=tokens,
    )


def check(stages: Sequence[StageCache], request: Request) -> VLLMError | None:
    """Return vLLM's error when a stage cannot hold one request, else None."""
    holders = [stage for stage in stages if stage.bytes_per_block]
    if holders and not holders[0].release.checks_each_stage:
        holders = [min(stages, key=lambda stage: stage.available_bytes)]
    for stage in holders:
        error = _check_stage(stage, request)
        if error is not None:
            return error
    return None


def check_state_blocks(
    groups: Sequence[LayerGroup], num_blocks: int, max_num_seqs: int
) -> VLLMError | None:
    """Return vLLM's error when requests that run at once outnumber their states.

    For a start that captures CUDA graphs of whole decode steps.

    Source: vLLM 0.33.0 `config/compilation.py` resolve_cudagraph_mode_and_sizes.
    """
    has_states = any(group.spec.is_state for group in groups)
    if not has_states or max_num_seqs <= num_blocks:
        return None
    return VLLMError(
        kind="num_seqs",
        message=f"max_num_seqs ({max_num_seqs}) exceeds available Mamba cache blocks "
        f"({num_blocks}). Each decode sequence requires one Mamba cache block, so CUDA "
        "graph capture cannot proceed. Please lower max_num_seqs to at most "
        f"{num_blocks} or increase gpu_memory_utilization.",
    )


def _check_stage(stage: StageCache, request: Request) -> VLLMError | None:
    if stage.usable_bytes <= 0:
        return kv_errors.no_memory(stage.release)
    needed = stage.needed_bytes(request)
    if needed <= stage.usable_bytes:
        return None
    return kv_errors.too_long(
        needed,
        stage.usable_bytes,
        max_model_len=request.max_model_len,
        longest=stage.longest_request(request.max_model_len, request),
        release=stage.release,
    )
