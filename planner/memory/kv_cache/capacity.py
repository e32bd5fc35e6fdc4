"""The KV cache of each pipeline stage: blocks, tokens, concurrency, vLLM's refusals.

The groups and sizes of a stage follow from its kernels alone and are cached under them,
so that plans of one model that differ in lengths, batches or utilization share them.

Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` get_kv_cache_configs and
_check_enough_kv_cache_memory (before 0.29.0 `v1/core/kv_cache_utils.py`);
`v1/core/kv_cache_utils.py` get_kv_cache_capacity.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from copy import copy
from functools import cached_property, lru_cache

from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.releases.change import Change
from planner.engine.releases.shared import (
    CHECKS_GROUPS,
    CHECKS_LEAST_STAGE,
    GROUPS_ALL_RANKS,
)
from planner.memory.account import VLLMError
from planner.memory.kv_cache import kv_groups, layer_tuples
from planner.memory.kv_cache.kernels import LayerKernels
from planner.memory.kv_cache.kv_groups import (
    LayerGroup,
    blocks_per_request,
    bytes_per_block,
)
from planner.memory.kv_cache.kv_spec import KVCacheSpec, Request
from planner.memory.kv_cache.layout import KVCacheLayout
from planner.units import GIB, vllm_gib
from planner.values import frozen

_SEE = (
    " See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ "
    "for more details."
)
_POINTS_TO_MEMORY_GUIDE = Change(
    since=(0, 13),
    what="Out-of-memory refusals link to the page about saving memory.",
    source="vLLM 0.13.0 `v1/core/kv_cache_utils.py` check_enough_kv_cache_memory",
)
_ROUNDS_GIB = Change(
    since=(0, 14),
    what="Out-of-memory refusals write sizes without trailing zeros.",
    source="vLLM 0.14.0 `utils/mem_utils.py` format_gib",
)
_MENTIONS_CPU_BACKEND = Change(
    since=(0, 22),
    what="Out-of-memory refusals mention the CPU backend.",
    source="vLLM 0.22.0 `v1/core/kv_cache_utils.py` _check_enough_kv_cache_memory",
)
_COUNTS_TOKENS_BY_CONCURRENCY = Change(
    since=(0, 20, 1),
    what=(
        'The logged "GPU KV cache size" is concurrency x length, not blocks x block '
        "size."
    ),
    source="vLLM 0.20.1 `v1/core/kv_cache_utils.py` _report_kv_cache_config",
)
_SETS_NULL_BLOCK_ASIDE = Change(
    since=(0, 29),
    what="The check of one request excludes the null block.",
    source="vLLM 0.29.0 `v1/core/kv_cache_utils.py` check_enough_kv_cache_memory",
)
_CHECKS_ALL_GROUPS = Change(
    since=(0, 19),
    what="The check of one request counts all groups, not only the first.",
    source=(
        "vLLM 0.19.0 `v1/core/kv_cache_utils.py` _max_memory_usage_bytes_from_groups"
    ),
)
_REMEMBERED = 256


@frozen(slots=False)
class StageCache:
    """The KV cache of one pipeline stage."""

    groups: tuple[LayerGroup, ...]
    available_bytes: int
    layout: KVCacheLayout = KVCacheLayout.LBNHC
    release: Release = NEWEST_RELEASE
    num_gpu_blocks_override: int | None = None
    """Blocks, whatever is available; the check of one request still applies."""
    checked_specs: tuple[tuple[KVCacheSpec, int], ...] = ()
    """Each spec of its layers, before grouping, with the number of layers."""
    checked_groups: tuple[LayerGroup, ...] = ()
    """Groups by which one request is checked, where they are not the stage's own."""

    @cached_property
    def bytes_per_block(self) -> int:
        """Bytes of one block on a rank; the groups share one pool of blocks."""
        return bytes_per_block(self.groups, self.layout, self.release)

    @cached_property
    def counted_groups(self) -> tuple[tuple[KVCacheSpec, int], ...]:
        """Each spec of its groups with the number of such groups."""
        return tuple(Counter(group.spec for group in self.groups).items())

    def blocks(self, request: Request) -> int:
        """Blocks of one request over all groups."""
        return sum(n * spec.blocks(request) for spec, n in self.counted_groups)

    @property
    def num_blocks(self) -> int:
        """Whole blocks that fit; 1 where no layer has a cache."""
        if self.num_gpu_blocks_override is not None:
            return self.num_gpu_blocks_override
        if not self.bytes_per_block:
            return 1
        return max(self.available_bytes, 0) // self.bytes_per_block

    @property
    def usable_bytes(self) -> int:
        """Bytes that requests may use: block 0 is vLLM's null block."""
        if not self.release.has(_SETS_NULL_BLOCK_ASIDE):
            return self.available_bytes
        return self.available_bytes - self.bytes_per_block

    def holding(self, available_bytes: int) -> StageCache:
        """Return the cache of the same layers with another number of bytes."""
        # These depend only on the layers, so they carry over.
        cached = {
            "bytes_per_block": self.bytes_per_block,
            "counted_groups": self.counted_groups,
        }
        other = copy(self)
        vars(other).update(cached, available_bytes=available_bytes)
        return other

    def needed_bytes(self, request: Request) -> int:
        """Bytes that one request needs on a rank.

        Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py`
        _max_memory_usage_bytes_from_groups; 0.13.0 `v1/core/kv_cache_utils.py`
        max_memory_usage_bytes; 0.14.0 to 0.18.1 the same,
        _max_memory_usage_bytes_from_groups.
        """
        if not self.release.has(CHECKS_GROUPS) and self.checked_specs:
            return sum(
                count * spec.page_size_bytes * spec.blocks(request)
                for spec, count in self.checked_specs
            )
        if self.groups and not self.release.has(_CHECKS_ALL_GROUPS):
            groups = self.checked_groups or self.groups
            blocks = blocks_per_request(groups[:1], request)
            return bytes_per_block(groups, self.layout) * blocks
        each = self.bytes_per_block
        if layer_tuples.are_tuples(self.groups, self.release):
            each = layer_tuples.checked_block_bytes(self.groups)
        return each * self.blocks(request)

    def longest_request(self, limit: int, request: Request) -> int:
        """Largest length up to `limit` that fits in the usable bytes; 0 if none."""
        if not self.bytes_per_block:
            return limit  # vLLM checks nothing where no layer has a cache
        usable = self.usable_bytes

        def needed(length: int) -> int:
            return self.needed_bytes(request.of_length(length))

        if needed(limit) <= usable:
            return limit
        return bisect_right(range(1, limit), usable, key=needed)


@frozen
class Capacity:
    """The capacity of the KV cache, as vLLM logs it."""

    num_gpu_blocks: int
    blocks_per_request: int
    max_concurrency: float
    kv_cache_size_tokens: int


@frozen
class RequestBlocks:
    """The blocks that requests of any length take in a start."""

    groups: tuple[LayerGroup, ...]
    request: Request
    """The longest."""

    def of(self, tokens: int) -> int:
        """Return the blocks of one request of so many tokens, at most the longest."""
        length = min(tokens, self.request.max_model_len)
        return blocks_per_request(self.groups, self.request.of_length(length))


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
    if layer_tuples.are_tuples(groups, release):
        needed = layer_tuples.logged_blocks(groups, request, release)
    concurrency = num_gpu_blocks / needed if needed else 0.0
    tokens = int(concurrency * request.max_model_len)
    if not release.has(_COUNTS_TOKENS_BY_CONCURRENCY) and groups:
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
    if holders and holders[0].release.has(CHECKS_LEAST_STAGE):
        holders = [min(stages, key=lambda stage: stage.available_bytes)]
    for stage in holders:
        error = _check_stage(stage, request)
        if error is not None:
            return error
    return None


def check_state_blocks(
    groups: Sequence[LayerGroup], num_blocks: int, max_num_seqs: int
) -> VLLMError | None:
    """Return vLLM's error when there are more concurrent requests than state blocks.

    It applies to starts that capture full CUDA graphs of decode steps.

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
    """Return the cache of the stage with these layers, with 0 bytes."""
    release = kernels.release
    whole = kernel_groups(kernels, has_hybrid_manager=has_hybrid_manager)
    groups = tuple(g.on_stage(layers.start, layers.stop, release) for g in whole)
    specs: list[tuple[int, KVCacheSpec]] = []
    if not release.has(CHECKS_GROUPS):
        specs = [entry for entry in kernels.specs if entry[0] in layers]
    if not release.has(GROUPS_ALL_RANKS):
        groups = _groups(kernels, tuple(specs), has_hybrid_manager=has_hybrid_manager)
    return StageCache(
        groups=groups,
        available_bytes=0,
        layout=kernels.layout,
        release=release,
        checked_specs=tuple(Counter(spec for _, spec in specs).items()),
        checked_groups=whole if release.has(CHECKS_LEAST_STAGE) else (),
    )


def no_memory(release: Release) -> VLLMError:
    """Return the error of a GPU without memory for the KV cache."""
    flag = ""
    if release.has(_MENTIONS_CPU_BACKEND):
        flag = (
            " (this flag also controls CPU memory reservation on the CPU backend, "
            "despite its name)"
        )
    return VLLMError(
        kind="no_kv",
        message="No available memory for the cache blocks. Try increasing "
        f"`gpu_memory_utilization` when initializing the engine{flag}."
        f"{_SEE if release.has(_POINTS_TO_MEMORY_GUIDE) else ''}",
    )


def too_long(
    needed_bytes: int,
    available_bytes: int,
    *,
    max_model_len: int,
    longest: int,
    release: Release,
) -> VLLMError:
    """Return the error of a request that does not fit; `longest` is 0 if none fits."""
    write = vllm_gib if release.has(_ROUNDS_GIB) else _two_decimals
    estimate = ""
    if longest:
        estimate = (
            "Based on the available memory, the estimated maximum model length is "
            f"{longest}."
        )
    # Older releases put a space after the estimate even where it is empty.
    estimate += " " if longest or not release.has(_ROUNDS_GIB) else ""
    is_newer = release.has(_MENTIONS_CPU_BACKEND)
    also = " (which also controls CPU memory on the CPU backend)" if is_newer else ""
    see = _SEE if release.has(_POINTS_TO_MEMORY_GUIDE) else ""
    return VLLMError(
        kind="max_model_len",
        message="To serve at least one request with the "
        f"{'model' if is_newer else 'models'}'s max seq len "
        f"({max_model_len}), ({write(needed_bytes)} GiB KV cache is needed, which "
        "is larger than the available KV cache memory "
        f"({write(available_bytes)} GiB). {estimate}Try increasing "
        f"`gpu_memory_utilization`{also} or decreasing `max_model_len` when "
        f"initializing the engine.{see}",
    )


def _check_stage(stage: StageCache, request: Request) -> VLLMError | None:
    if stage.usable_bytes <= 0:
        return no_memory(stage.release)
    needed = stage.needed_bytes(request)
    if needed <= stage.usable_bytes:
        return None
    return too_long(
        needed,
        stage.usable_bytes,
        max_model_len=request.max_model_len,
        longest=stage.longest_request(request.max_model_len, request),
        release=stage.release,
    )


def _two_decimals(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f}"


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
