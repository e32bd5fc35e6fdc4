"""How the KV cache is laid out in memory: its dimensions, packed values, packed pages.

The dimensions are layers (L), blocks (B), heads (H), tokens (N) and content (C),
outermost first; their order determines how groups share a block. Quantised dtypes pack
values with their scales. Where layers have pages of several sizes, groups can be packed
so that their pages are side by side in a block.

Source: vLLM 0.33.0 `v1/kv_cache_layout.py`, `v1/attention/backends/utils.py`
get_supported_kv_cache_layouts and resolve_kv_cache_layout; `utils/torch_utils.py`
STR_DTYPE_TO_TORCH_DTYPE, nvfp4_kv_cache_full_dim;
`v1/attention/backends/triton_attn.py` customize_spec;
`layers/quantization/turboquant/config.py`; `v1/core/kv_cache_planning.py`
_get_packed_kv_cache_groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from functools import cached_property

from planner.engine.dtypes import element_bytes
from planner.errors import Refused
from planner.memory.kv_cache.kv_spec import AttentionSpec, KVCacheSpec, is_uniform_type
from planner.values import frozen

PER_TOKEN_HEAD = ("int4_per_token_head", "int8_per_token_head", "fp8_per_token_head")
TURBOQUANT_BITS = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
"""Bits of an element of keys and of values."""
TURBOQUANT = tuple(TURBOQUANT_BITS)
_NORM_BYTES = 2
_SCALE_AND_ZERO_BYTES = 4
_SCALES_BYTES = 2 * 4
_FP8_BITS = 8
Kept = tuple[tuple[int, KVCacheSpec], ...]
"""Indices of layers in the model with a spec of each, in the model's order."""


class KVCacheLayout(Enum):
    """An order of the KV cache's dimensions, in vLLM's order of names."""

    LBHNC = "LBHNC"
    LBNHC = "LBNHC"
    LHBNC = "LHBNC"
    BLHNC = "BLHNC"
    BLNHC = "BLNHC"
    BHLNC = "BHLNC"

    @property
    def is_block_outermost(self) -> bool:
        """Whether the pages of all layers in one block are contiguous."""
        return self.value.startswith("B")

    @property
    def is_block_compact(self) -> bool:
        """Whether each page is contiguous."""
        return set(self.value[:2]) == {"L", "B"}


_PREFERENCE = tuple(
    KVCacheLayout(name)
    for name in ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
)


def supported_layouts(
    declared: Iterable[Sequence[KVCacheLayout] | None],
) -> tuple[KVCacheLayout, ...]:
    """Return the layouts that every kernel supports, the preferred ones first.

    `declared` has one entry per kernel; None: it supports any.

    Raises:
        Refused: when there is none.
    """
    given = [tuple(layouts) for layouts in declared if layouts is not None]
    if not given:
        return _PREFERENCE
    if len(set(given)) == 1:
        return given[0]
    votes = Counter(layouts[0] for layouts in given)
    shared = [layout for layout in KVCacheLayout if all(layout in g for g in given)]
    if not shared:
        names = [[layout.name for layout in layouts] for layouts in given]
        raise Refused(f"No KV cache layout satisfies every supported set: {names}.")
    return tuple(sorted(shared, key=lambda layout: -votes[layout]))


def resolve_layout(
    candidates: Sequence[KVCacheLayout],
    specs: Sequence[KVCacheSpec],
    preferred: KVCacheLayout | None = None,
) -> KVCacheLayout:
    """Return the layout of the model: the preferred one where it is possible.

    Raises:
        Refused: when no candidate is possible for the model's pages.
    """
    # Equal layers share one object, so that few are examined.
    shapes = {_shape(spec) for spec in {id(spec): spec for spec in specs}.values()}
    if len(shapes) > 1:
        compact = [layout for layout in candidates if layout.is_block_compact]
        if not compact:
            names = [[layout.name for layout in candidates]]
            raise Refused(
                "Specs with mixed HNC shapes need a block-compact layout, but none is "
                f"in every supported set: {names}."
            )
        candidates = compact
    return preferred if preferred in candidates and preferred else candidates[0]


def _shape(spec: KVCacheSpec) -> tuple[object, ...]:
    if isinstance(spec, AttentionSpec):
        heads = spec.num_head_slots or spec.num_kv_heads
        return (heads, spec.block_size // spec.tokens_per_state, spec.page_size_bytes)
    return (1, 1, spec.page_size_bytes)


def kv_element_bytes(dtype: str, kv_cache_dtype: str) -> int:
    """Return the bytes of one stored value; 1 for quantised dtypes."""
    if kv_cache_dtype == "auto":
        return element_bytes(dtype)
    plain = kv_cache_dtype in ("bfloat16", "float16")
    return element_bytes(kv_cache_dtype) if plain else 1


def quant_mode(kv_cache_dtype: str) -> str:
    """Return how values are quantised; FP8 has two names."""
    if kv_cache_dtype in ("auto", "float16", "bfloat16"):
        return "none"
    return "fp8" if kv_cache_dtype in ("fp8", "fp8_e4m3") else kv_cache_dtype


def in_nvfp4_slots(spec: AttentionSpec) -> AttentionSpec:
    """Return the spec with slots for keys and values: half a byte, a scale per 16."""
    size_bytes = spec.head_size // 2 + spec.head_size // 16
    slots = 2 * spec.num_kv_heads
    return replace(spec, num_head_slots=slots, state_content_bytes=size_bytes)


def per_token_head_bytes(spec: AttentionSpec) -> int:
    """Return the bytes of a head's key and value with a float32 scale each."""
    sizes = (spec.head_size, spec.head_size_v or spec.head_size)
    parts = 2 if spec.kv_quant_mode.startswith("int4") else 1
    return sum(size // parts for size in sizes) * spec.element_bytes + _SCALES_BYTES


def turboquant_bytes(kv_cache_dtype: str, head_size: int) -> int:
    """Return the bytes of a head's key and value, rounded up to an even number."""
    key_bits, value_bits = TURBOQUANT_BITS[kv_cache_dtype]
    key = -(-head_size * key_bits // 8) + (_NORM_BYTES if key_bits < _FP8_BITS else 0)
    value = -(-head_size * value_bits // 8) + _SCALE_AND_ZERO_BYTES
    return key + value + (key + value) % 2


@frozen(slots=False)
class _Bucket:
    """Layers of one kind, with pages of any size."""

    kept: Kept

    @cached_property
    def by_page(self) -> tuple[Kept, ...]:
        """The layers of each page size, in order of first occurrence."""
        pages: dict[int, list[tuple[int, KVCacheSpec]]] = {}
        for layer, spec in self.kept:
            pages.setdefault(spec.page_size_bytes, []).append((layer, spec))
        return tuple(tuple(entries) for entries in pages.values())

    @property
    def is_balanced(self) -> bool:
        """Whether all page sizes have equally many layers."""
        return len({len(entries) for entries in self.by_page}) == 1

    @property
    def max_layers_per_page_size(self) -> int:
        """How often the pattern of page sizes repeats."""
        return max(len(entries) for entries in self.by_page)

    def is_state(self, repeats: int | None) -> bool:
        """Whether it can be split down to one state per group."""
        spec = self.kept[0][1]
        return spec.is_state or (repeats is None and spec.is_window)

    def num_groups(self, repeats: int | None) -> int:
        """The number of groups into which it is split."""
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
        """Return the groups, each with equally many repeats of the pattern."""
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
    """Put each layer in the first bucket of its kind.

    Equal layers share one object, whose bucket is searched only once: a bucket that
    does not accept it will not accept it after growing either.
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
    """Return the chunk size that pads the values least; among equals, the largest.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` _approximate_gcd.
    """
    least = max(1, lower_bound)
    sizes = range(least, max(values) + 1)
    return min(sizes, key=lambda d: (sum(-v % d for v in values), -d), default=least)
