"""KV cache groups: which layers share a block table, and how large a block is.

Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` get_kv_cache_groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import lcm

from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.releases.change import Change
from planner.engine.releases.shared import PACKS_PAGES
from planner.errors import Refused
from planner.memory.kv_cache import layer_tuples
from planner.memory.kv_cache.kv_spec import (
    AttentionSpec,
    CannotMergeError,
    FullAttentionSpec,
    KVCacheSpec,
    Request,
    UniformTypeKVCacheSpecs,
    is_uniform,
    is_uniform_type,
)
from planner.memory.kv_cache.layout import Kept, KVCacheLayout, packed
from planner.values import frozen

_MIXES_SIZES_OF_A_KIND = Change(
    since=(0, 11),
    what="Layers of one kind and several sizes can share a group.",
    source="vLLM 0.11.0 `v1/kv_cache_interface.py` UniformTypeKVCacheSpecs",
)
_PROJECTS_SIZES_OF_A_KIND = Change(
    since=(0, 17),
    what=(
        "A pipeline stage counts only the pages of its own layers, also where a group "
        "has layers of several sizes."
    ),
    source="vLLM 0.17.0 `v1/core/kv_cache_utils.py` _project_kv_cache_groups_to_worker",
)
_ENLARGES_BLOCKS = Change(
    since=(0, 12),
    what="Blocks are enlarged until all pages have one size.",
    source="vLLM 0.12.0 `v1/core/kv_cache_utils.py` unify_kv_cache_spec_page_size",
)
_PADS_ATTENTION_PAGES = Change(
    since=(0, 24),
    what="Pages of attention are padded where enlarging is not enough.",
    source="vLLM 0.24.0 `v1/core/kv_cache_utils.py` unify_kv_cache_spec_page_size",
)
_PADS_STATE_PAGES = Change(
    since=(0, 26),
    what="Pages of states are padded to those of their neighbours.",
    source="vLLM 0.26.0 `v1/core/kv_cache_utils.py` unify_kv_cache_spec_page_size",
)
_MERGES_KINDS = Change(
    since=(0, 27),
    what=(
        "Layers with mergeable specs are split into groups together. Layers are stored "
        "in full where their pages cannot have one size."
    ),
    source=(
        "vLLM 0.27.0 `v1/core/kv_cache_utils.py` _get_kv_cache_groups_uniform_page_size"
    ),
)
_PADS_UP_TO_QUARTER = Change(
    since=(0, 12),
    what=(
        "Kinds of layers share groups of one size, padded, where the most frequent has "
        "fewer than 1.25 times as many layers as the least frequent."
    ),
    source=(
        "vLLM 0.12.0 `v1/core/kv_cache_utils.py` _get_kv_cache_groups_uniform_page_size"
    ),
)
_PADS_UP_TO_HALF = Change(
    since=(0, 18),
    what=(
        "Kinds of layers share groups of one size, padded, up to 1.5 times as many "
        "layers of one kind as of another. Before, up to 1.25 times."
    ),
    source=(
        "vLLM 0.18.0 `v1/core/kv_cache_utils.py` _get_kv_cache_groups_uniform_page_size"
    ),
)


@frozen
class LayerGroup:
    """Layers that share a block table, by their indices in the model."""

    spec: KVCacheSpec
    layers: tuple[int, ...]

    @property
    def num_layers(self) -> int:
        """Layers in the group; a layer with two caches in it counts twice."""
        return len(self.layers)

    @property
    def layer_specs(self) -> tuple[KVCacheSpec, ...]:
        """One spec per layer."""
        if isinstance(self.spec, UniformTypeKVCacheSpecs):
            return self.spec.specs if self.layers else ()
        return (self.spec,) * self.num_layers

    @property
    def counted_specs(self) -> tuple[tuple[KVCacheSpec, int], ...]:
        """Each spec with the number of layers that have it.

        Equal layers share one object, so that few are examined.
        """
        if not isinstance(self.spec, UniformTypeKVCacheSpecs):
            return ((self.spec, self.num_layers),)
        objects = {id(spec): spec for spec in self.layer_specs}
        counts = Counter(map(id, self.layer_specs))
        return tuple((objects[key], count) for key, count in counts.items())

    def on_stage(
        self, begin: int, end: int, release: Release = NEWEST_RELEASE
    ) -> LayerGroup:
        """Return the group with the layers of one pipeline stage.

        Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py`
        _project_kv_cache_groups_to_worker.
        """
        kept = [i for i, layer in enumerate(self.layers) if begin <= layer < end]
        layers = tuple(self.layers[i] for i in kept)
        if not release.has(_PROJECTS_SIZES_OF_A_KIND):
            return LayerGroup(spec=self.spec, layers=layers)
        if layers and isinstance(self.spec, UniformTypeKVCacheSpecs):
            specs = [self.spec.specs[i] for i in kept]
            return LayerGroup(spec=UniformTypeKVCacheSpecs.of(specs), layers=layers)
        return LayerGroup(spec=self.spec, layers=layers)


def bytes_per_block(
    groups: Sequence[LayerGroup],
    layout: KVCacheLayout,
    release: Release = NEWEST_RELEASE,
) -> int:
    """Return the bytes of one block on a rank; the groups share one pool of blocks.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` _get_kv_cache_bytes_per_block.
    """
    if layer_tuples.are_tuples(groups, release):
        return layer_tuples.block_bytes(groups, release)
    counted = [group.counted_specs for group in groups]
    if not layout.is_block_outermost:
        sizes = [sum(n * s.block_stride_bytes for s, n in specs) for specs in counted]
        return max(sizes, default=0)
    sizes = [sum(n * s.page_size_bytes for s, n in specs) for specs in counted]
    steps = [s.stride_alignment_bytes for specs in counted for s, n in specs if n]
    step = lcm(*steps)
    return -(-max(sizes, default=0) // step) * step


def group(
    specs: Sequence[tuple[int, KVCacheSpec]],
    *,
    has_hybrid_manager: bool = True,
    layout: KVCacheLayout = KVCacheLayout.LBNHC,
    release: Release = NEWEST_RELEASE,
) -> tuple[LayerGroup, ...]:
    """Return the groups of a whole model's layers; none without caches.

    `has_hybrid_manager` False: beside full attention, windows are stored in full too.

    Raises:
        Refused: where vLLM finds no grouping.
    """
    kept = tuple(specs)
    if not kept:
        return ()
    if not has_hybrid_manager:
        kept = _unified(kept, release)
    layers, kinds = _split(kept)
    if is_uniform(kinds):
        return (LayerGroup(spec=kinds[0].merge(kinds), layers=layers),)
    if release.has(_MIXES_SIZES_OF_A_KIND) and is_uniform_type(kinds):
        return (LayerGroup(spec=UniformTypeKVCacheSpecs.of(kinds), layers=layers),)
    has_sizes = len({s.page_size_bytes for s in kinds}) > 1
    if layout.is_block_outermost and has_sizes and release.has(PACKS_PAGES):
        return tuple(_of(part) for part in packed(kept))
    if layer_tuples.has_tuples(kinds, release):
        return tuple(_of(part) for part in layer_tuples.split(kept, release))
    if has_sizes and not release.has(_ENLARGES_BLOCKS):
        # vLLM raises that exception without a message.
        raise Refused("NotImplementedError")
    return _of_one_page_size(kept, release)


def blocks_per_request(groups: Sequence[LayerGroup], request: Request) -> int:
    """Return the blocks of one request over all groups."""
    return sum(group.spec.blocks(request) for group in groups)


def _split(kept: Kept) -> tuple[tuple[int, ...], tuple[KVCacheSpec, ...]]:
    return tuple(i for i, _ in kept), tuple(spec for _, spec in kept)


def _of(part: Kept) -> LayerGroup:
    layers, kinds = _split(part)
    return LayerGroup(spec=UniformTypeKVCacheSpecs.of(kinds), layers=layers)


def _unified(kept: Kept, release: Release) -> Kept:
    """Store windows as full attention; layers that DCP does not shard separately.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` unify_hybrid_kv_cache_specs.
    """
    changed = dict(enumerate(kept))
    for replicated in (False, True):
        part = {
            place: entry
            for place, entry in enumerate(kept)
            if replicated
            is (isinstance(entry[1], AttentionSpec) and not entry[1].dcp_sharded)
        }
        if part:
            promoted = _promoted(tuple(part.values()), release)
            changed.update(zip(part, promoted, strict=True))
    return tuple(changed.values())


def _promoted(kept: Kept, release: Release) -> Kept:
    """Store windows as full attention where there are full layers too.

    Raises:
        Refused: when the layers then still differ in kind.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` _promote_local_kv_cache_specs.
    """
    _, kinds = _split(kept)
    if is_uniform(kinds) or is_uniform_type(kinds):
        return kept
    full = [spec for spec in kinds if isinstance(spec, FullAttentionSpec)]
    sizes = {spec.block_size for spec in full}
    size = sizes.pop() if len(sizes) == 1 else None
    if full:
        kept = tuple((i, spec.promoted(size)) for i, spec in kept)
        _, kinds = _split(kept)
    if is_uniform(kinds) or is_uniform_type(kinds):
        return kept
    if not release.has(_MERGES_KINDS):
        raise Refused(
            "Hybrid KV cache manager is disabled but failed to convert the KV cache "
            "specs to one unified type."
        )
    raise Refused("Failed to promote local KV cache specs to one unified type.")


def _of_one_page_size(kept: Kept, release: Release) -> tuple[LayerGroup, ...]:
    """Enlarge blocks until all pages are as large as the largest, then group.

    Raises:
        Refused: where vLLM can neither enlarge nor pad a page.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` unify_kv_cache_spec_page_size,
    _try_get_full_allocation_fallback_groups.
    """
    # Equal layers share one object, so that few are examined.
    kinds = {id(spec): spec for _, spec in kept}
    largest = max(spec.page_size_bytes for spec in kinds.values())
    resized = {
        key: _with_page_size(spec, largest, release) for key, spec in kinds.items()
    }
    unified = []
    for layer, spec in kept:
        alike = resized[id(spec)]
        if alike is None:
            return (_allocated_in_full(kept, release),)
        unified.append((layer, alike))
    return _split_evenly(tuple(unified), release)


def _with_page_size(
    spec: KVCacheSpec, page_size_bytes: int, release: Release
) -> KVCacheSpec | None:
    may_pad = release.has(_PADS_ATTENTION_PAGES)
    if spec.is_state:
        may_pad = release.has(_PADS_STATE_PAGES)
    if may_pad:
        return spec.with_page_size(page_size_bytes)
    return KVCacheSpec.with_page_size(spec, page_size_bytes)


def _allocated_in_full(kept: Kept, release: Release) -> LayerGroup:
    if not release.has(_MERGES_KINDS):
        raise Refused(
            "The page size of the layer is not divisible by the maximum page size. "
            "Cannot unify by adjusting block_size."
        )
    try:
        return _of(_promoted(kept, release))
    except Refused:
        raise Refused(
            "page size is not divisible by the maximum page size and cannot be "
            "padded. Padding is only supported for non-MLA attention layers."
        ) from None


def _split_evenly(kept: Kept, release: Release) -> tuple[LayerGroup, ...]:
    """Split each kind of layer into groups of equal size.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py`
    _get_kv_cache_groups_uniform_page_size.
    """
    buckets = _buckets(kept, release)
    sizes = [len(bucket) for bucket in buckets]
    is_close = max(sizes) < _much_larger(release) * min(sizes)
    size = max(sizes) if is_close else min(sizes)
    groups = []
    for bucket in buckets:
        count = -(-len(bucket) // size)
        for first in range(count):
            layers, kinds = _split(bucket[first::count])
            groups.append(LayerGroup(spec=kinds[0].merge(kinds), layers=layers))
    return tuple(groups)


def _buckets(kept: Kept, release: Release) -> tuple[Kept, ...]:
    """Collect the layers whose specs can be merged, in the order of their kinds."""
    alike: dict[KVCacheSpec, list[tuple[int, KVCacheSpec]]] = {}
    for layer, spec in kept:
        alike.setdefault(spec, []).append((layer, spec))
    if not release.has(_MERGES_KINDS):
        return tuple(tuple(entries) for entries in alike.values())
    buckets: list[tuple[list[KVCacheSpec], list[tuple[int, KVCacheSpec]]]] = []
    for spec, entries in alike.items():
        home = next((b for b in buckets if _can_merge([*b[0], spec])), None)
        if home is None:
            buckets.append(([spec], entries))
        else:
            home[0].append(spec)
            home[1].extend(entries)
    return tuple(tuple(entries) for _, entries in buckets)


def _can_merge(specs: Sequence[KVCacheSpec]) -> bool:
    try:
        specs[0].merge(specs)
    except (CannotMergeError, Refused):
        return False
    return True


def _much_larger(release: Release) -> float:
    """Return the ratio of layers from which two kinds are not padded to one size."""
    if release.has(_PADS_UP_TO_HALF):
        return 1.5
    return 1.25 if release.has(_PADS_UP_TO_QUARTER) else 1.0
