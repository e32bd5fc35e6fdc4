"""Groups of compressed caches in 0.20 to 0.28, whose pages have several sizes.

Layers that store all tokens are one group. Those that store windows are split so that
each group repeats its page sizes about as often as the first: a layer tuple is one page
of each size. From 0.29 on `layout.packed` does this for every kind of model.

Source: vLLM 0.20.0 and 0.28.0 `v1/core/kv_cache_utils.py`
group_and_unify_kv_cache_specs, _get_kv_cache_groups_uniform_groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.releases.shared import PACKS_PAGES
from planner.errors import Refused
from planner.memory.kv_cache.kv_spec import (
    KVCacheSpec,
    Request,
    UniformTypeKVCacheSpecs,
)
from planner.memory.kv_cache.layout import Kept, approximate_gcd
from planner.memory.kv_cache.specs_of_latent import SlidingWindowMLASpec
from planner.models.caches import CompressedMLALayer
from planner.units import GIB

if TYPE_CHECKING:
    from planner.memory.kv_cache.kv_groups import LayerGroup
    from planner.models.architecture import ModelArchitecture

_SHARES_SLOTS = Change(
    since=(0, 23),
    what=(
        "A block of DeepSeek-V4 holds as many pages of each size as the largest group "
        "needs, not as many tuples of all sizes."
    ),
    source=(
        "vLLM 0.23.0 and 0.24.0 `v1/core/kv_cache_utils.py` _get_kv_cache_config_packed"
    ),
)
_OVERLAYS_GROUPS = Change(
    since=(0, 27),
    what="Pages of DeepSeek-V4's windows are no longer padded to those of the others.",
    source=(
        "vLLM 0.26.0 and 0.27.1 `v1/core/kv_cache_utils.py` _get_packed_kv_cache_layout"
    ),
)
_COUNTS_BLOCKS_OF_GROUPS = Change(
    since=(0, 27),
    what=(
        "The logged concurrency counts a request's blocks group by group. Before, its "
        "bytes were divided by those of the first group's block."
    ),
    source=(
        "vLLM 0.26.0 and 0.27.1 `v1/core/kv_cache_utils.py` "
        "get_max_concurrency_for_kv_cache_config"
    ),
)


UNREAD_BYTES = 2 * GIB
"""What a release whose DeepSeek-V4 was not read may take beside the later ones' way.

The one published start, of 0.26.0, left 1.3 GiB less than planned; one start hardly
shows the whole range.
"""


def is_unread(model: ModelArchitecture, release: Release) -> bool:
    """Return whether a model with compressed caches runs as later releases run it.

    Only how its caches are grouped was read of such a release.
    """
    return not release.has(PACKS_PAGES) and any(
        isinstance(cache, CompressedMLALayer)
        for kind in model.layer_kinds
        for cache in kind.caches
    )


def has_tuples(specs: Iterable[KVCacheSpec], release: Release) -> bool:
    """Return whether layers of these specs are grouped by tuples."""
    kinds = {id(spec): spec for spec in specs}.values()
    return (
        not release.has(PACKS_PAGES)
        and any(isinstance(spec, SlidingWindowMLASpec) for spec in kinds)
        and len({spec.page_size_bytes for spec in kinds}) > 1
    )


def split(kept: Kept, release: Release) -> tuple[Kept, ...]:
    """Return the layers of each group, the first of which stores all tokens."""
    full = tuple(entry for entry in kept if not entry[1].is_window)
    windows: dict[tuple[int, object], list[tuple[int, KVCacheSpec]]] = {}
    for layer, spec in kept:
        if isinstance(spec, SlidingWindowMLASpec):
            key = (spec.block_size, spec.sliding_window)
            windows.setdefault(key, []).append((layer, spec))
    parts = [tuple(entries) for entries in windows.values()]
    least = _repeats(full)
    repeats = approximate_gcd([least, *map(_repeats, parts)], lower_bound=least)
    sizes = sorted({spec.page_size_bytes for _, spec in full})
    groups = [full]
    for part in parts:
        if not release.has(_OVERLAYS_GROUPS):
            part = _padded(part, sizes)
        by_page = [
            [entry for entry in part if entry[1].page_size_bytes == size]
            for size in dict.fromkeys(spec.page_size_bytes for _, spec in part)
        ]
        tuples = list(zip(*by_page, strict=False))
        count = -(-len(tuples) // repeats)
        groups += [
            tuple(entry for one in tuples[first::count] for entry in one)
            for first in range(count)
        ]
    return tuple(groups)


def _repeats(kept: Kept) -> int:
    """Return how often the most frequent page size occurs."""
    return max(Counter(spec.page_size_bytes for _, spec in kept).values(), default=1)


def _padded(kept: Kept, sizes: Sequence[int]) -> Kept:
    """Return the layers with pages as large as the nearest of those sizes.

    Raises:
        Refused: where none is as large, as vLLM asserts without a word.

    Source: vLLM 0.26.0 `v1/core/kv_cache_utils.py`.
    """
    padded: dict[int, KVCacheSpec] = {}
    for _, spec in kept:
        if id(spec) not in padded and isinstance(spec, SlidingWindowMLASpec):
            larger = [size for size in sizes if size >= spec.page_size_bytes]
            if not larger:
                raise Refused("AssertionError: ")
            size = larger[0]
            padded[id(spec)] = replace(
                spec, page_size_padded_bytes=size, alignment_bytes=None
            )
    return tuple((layer, padded[id(spec)]) for layer, spec in kept)


def are_tuples(groups: Sequence[LayerGroup], release: Release) -> bool:
    """Return whether these groups share blocks by tuples."""
    return (
        len(groups) > 1
        and not release.has(PACKS_PAGES)
        and all(isinstance(group.spec, UniformTypeKVCacheSpecs) for group in groups)
    )


def block_bytes(groups: Sequence[LayerGroup], release: Release) -> int:
    """Return the bytes of one block on a rank.

    Source: vLLM 0.22.1 and 0.23.0 `v1/core/kv_cache_utils.py`
    _get_kv_cache_config_deepseek_v4; 0.27.1 the same, _get_kv_cache_config_packed.
    """
    pages = _pages(groups)
    if release.has(_OVERLAYS_GROUPS):
        return max(sum(size * n for size, n in one.items()) for one in pages)
    if release.has(_SHARES_SLOTS):
        most: Counter[int] = Counter()
        for one in pages:
            most |= one
        return sum(size * n for size, n in most.items())
    return checked_block_bytes(groups)


def checked_block_bytes(groups: Sequence[LayerGroup]) -> int:
    """Return the bytes of one block by which a single request is checked.

    Source: vLLM 0.20.0 and 0.28.0 `v1/core/kv_cache_utils.py`
    _max_memory_usage_bytes_from_groups.
    """
    pages = _pages(groups)
    tuples = max(max(one.values(), default=0) for one in pages)
    return tuples * sum(pages[0])


def logged_blocks(
    groups: Sequence[LayerGroup], request: Request, release: Release
) -> int:
    """Return the blocks of a request by which concurrency is logged."""
    specs = [group.spec for group in groups]
    if release.has(_COUNTS_BLOCKS_OF_GROUPS):
        return sum(spec.blocks(request) for spec in specs)
    size_bytes = sum(spec.blocks(request) * spec.page_size_bytes for spec in specs)
    return -(-size_bytes // specs[0].page_size_bytes)


def _pages(groups: Sequence[LayerGroup]) -> list[Counter[int]]:
    """Return how many pages of each size the groups hold."""
    return [
        Counter(spec.page_size_bytes for spec in group.layer_specs) for group in groups
    ]
