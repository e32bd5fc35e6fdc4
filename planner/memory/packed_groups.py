"""Groups of layers with pages of several sizes, which share a block side by side.

Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` _get_packed_kv_cache_groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from planner.memory.kv_spec import KVCacheSpec, is_uniform_type

Kept = tuple[tuple[int, KVCacheSpec], ...]


@dataclass(frozen=True, kw_only=True)
class _Bucket:
    """Layers of one kind, whatever the sizes of their pages."""

    kept: Kept

    @cached_property
    def by_page(self) -> tuple[Kept, ...]:
        """The layers of each page size, in the order of their first ones."""
        pages: dict[int, list[tuple[int, KVCacheSpec]]] = {}
        for layer, spec in self.kept:
            pages.setdefault(spec.page_size_bytes, []).append((layer, spec))
        return tuple(tuple(entries) for entries in pages.values())

    @property
    def is_balanced(self) -> bool:
        """Whether there are as many layers of each page size."""
        return len({len(entries) for entries in self.by_page}) == 1

    @property
    def max_layers_per_page_size(self) -> int:
        """How often the pattern of page sizes repeats."""
        return max(len(entries) for entries in self.by_page)

    def is_state(self, repeats: int | None) -> bool:
        """Whether it can be split down to one state a group."""
        spec = self.kept[0][1]
        return spec.is_state or (repeats is None and spec.is_window)

    def num_groups(self, repeats: int | None) -> int:
        """Groups that it is split into."""
        if not self.is_balanced or repeats is None:
            return 1
        return -(-self.max_layers_per_page_size // repeats)

    def widest_group_bytes(self, num_groups: int) -> int:
        """Page bytes of the largest of that many groups."""
        return sum(
            -(-len(entries) // num_groups) * entries[0][1].page_size_bytes
            for entries in self.by_page
        )

    def split(self, num_groups: int) -> tuple[Kept, ...]:
        """Return that many groups, each with as many repeats of the pattern."""
        if num_groups == 1:
            return (self.kept,)
        repeats = list(zip(*self.by_page, strict=False))
        return tuple(
            tuple(entry for repeat in repeats[first::num_groups] for entry in repeat)
            for first in range(num_groups)
        )


def packed(kept: Kept) -> tuple[Kept, ...]:
    """Return the layers of each group."""
    buckets = [_Bucket(kept=tuple(entries)) for entries in _uniform(kept)]
    mixed = [
        bucket.max_layers_per_page_size
        for bucket in buckets
        if bucket.is_balanced and len(bucket.by_page) > 1
    ]
    repeats = None
    if mixed:
        balanced = [b.max_layers_per_page_size for b in buckets if b.is_balanced]
        repeats = approximate_gcd(balanced, lower_bound=max(mixed))
    anchor = max(
        bucket.widest_group_bytes(
            len(bucket.kept) if bucket.is_state(repeats) else bucket.num_groups(repeats)
        )
        for bucket in buckets
    )
    groups: list[Kept] = []
    for bucket in buckets:
        count = bucket.num_groups(repeats)
        if bucket.is_state(repeats):
            states = max(anchor // bucket.kept[0][1].page_size_bytes, 1)
            count = max(count, -(-len(bucket.kept) // states))
        groups += bucket.split(count)
    return tuple(groups)


def _uniform(kept: Kept) -> list[list[tuple[int, KVCacheSpec]]]:
    """Put each layer with the first ones of its kind.

    Layers that are alike share one object, whose place need not be looked for twice:
    a bucket that would not take it takes it no more when it has grown.
    """
    buckets: list[list[tuple[int, KVCacheSpec]]] = []
    distinct: list[list[KVCacheSpec]] = []
    places: dict[int, int] = {}
    for layer, spec in kept:
        if id(spec) not in places:
            fitting = (
                place
                for place, specs in enumerate(distinct)
                if is_uniform_type([*specs, spec])
            )
            place = next(fitting, len(buckets))
            if place == len(buckets):
                buckets.append([])
                distinct.append([])
            distinct[place].append(spec)
            places[id(spec)] = place
        buckets[places[id(spec)]].append((layer, spec))
    return buckets


def approximate_gcd(values: Sequence[int], *, lower_bound: int = 1) -> int:
    """Return the chunk size that pads the values least, the larger of equals.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` _approximate_gcd.
    """
    least = max(1, lower_bound)
    sizes = range(least, max(values) + 1)
    return min(sizes, key=lambda d: (sum(-v % d for v in values), -d), default=least)
