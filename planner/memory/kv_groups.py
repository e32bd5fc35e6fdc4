"""From layers to KV cache groups: which layers share a block table, how big a block is.

Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` get_kv_cache_groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.caches import AttentionLayer, CacheLayer
from planner.dtypes import FP8_KV_CACHE_DTYPES as FP8
from planner.dtypes import element_bytes
from planner.errors import UnknownArchitecture
from planner.layers import kv_heads_per_rank
from planner.memory.kv_spec import (
    FullAttentionSpec,
    KVCacheSpec,
    LayerSpec,
    Request,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)
from planner.model import ModelArchitecture
from planner.parallel import ParallelLayout

_MUCH_LARGER = 1.5
"""From this ratio on vLLM rather makes several groups than pads the smaller kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """Layers that share a block table, by their indices in the model."""

    spec: KVCacheSpec
    layers: tuple[int, ...]

    @property
    def num_layers(self) -> int:
        """Layers in the group."""
        return len(self.layers)

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block over all layers of the group."""
        if isinstance(self.spec, UniformTypeKVCacheSpecs):
            return self.spec.page_size_bytes if self.layers else 0
        return self.spec.page_size_bytes * self.num_layers

    def on_stage(self, begin: int, end: int) -> LayerGroup:
        """Return the group with the layers that one pipeline stage holds.

        Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py`
        _project_kv_cache_groups_to_worker.
        """
        kept = [i for i, layer in enumerate(self.layers) if begin <= layer < end]
        layers = tuple(self.layers[i] for i in kept)
        if layers and isinstance(self.spec, UniformTypeKVCacheSpecs):
            specs = tuple(self.spec.specs[i] for i in kept)
            return LayerGroup(spec=UniformTypeKVCacheSpecs(specs=specs), layers=layers)
        return LayerGroup(spec=self.spec, layers=layers)


def layer_specs(
    model: ModelArchitecture,
    layout: ParallelLayout,
    block_size: int,
    *,
    dtype: str,
    kv_cache_dtype: str,
) -> tuple[tuple[int, LayerSpec], ...]:
    """Return each KV cache spec with the index of its layer, in the model's order.

    A layer has none, one or several.

    Raises:
        Refused: when KV heads and tensor parallel size do not divide each other.
        UnknownArchitecture: for a kind of cache that is not modelled.
    """
    by_kind = [
        tuple(
            _spec(cache, layout, block_size, dtype=dtype, kv_cache_dtype=kv_cache_dtype)
            for cache in kind.caches
        )
        for kind in model.layer_kinds
    ]
    return tuple(
        (layer, spec)
        for layer, kind in enumerate(model.layers)
        for spec in by_kind[kind]
    )


def _spec(
    cache: CacheLayer,
    layout: ParallelLayout,
    block_size: int,
    *,
    dtype: str,
    kv_cache_dtype: str,
) -> LayerSpec:
    if not isinstance(cache, AttentionLayer):
        raise UnknownArchitecture(
            f"{type(cache).__name__}: this kind of KV cache is not modelled yet."
        )
    num_kv_heads = kv_heads_per_rank(cache.num_kv_heads, layout)
    element_size = _element_size(cache, dtype, kv_cache_dtype)
    if cache.sliding_window is None:
        return FullAttentionSpec(
            block_size=block_size,
            num_kv_heads=num_kv_heads,
            head_size=cache.head_size,
            element_bytes=element_size,
        )
    return SlidingWindowSpec(
        block_size=block_size,
        num_kv_heads=num_kv_heads,
        head_size=cache.head_size,
        element_bytes=element_size,
        sliding_window=cache.sliding_window,
    )


def _element_size(layer: AttentionLayer, dtype: str, kv_cache_dtype: str) -> int:
    """Bytes of one K or V value.

    Source: vLLM 0.33.0 `utils/torch_utils.py` STR_DTYPE_TO_TORCH_DTYPE.
    """
    if kv_cache_dtype == "auto" or not layer.heeds_kv_cache_dtype:
        return element_bytes(dtype)
    return 1 if kv_cache_dtype in FP8 else element_bytes(kv_cache_dtype)


def group(
    specs: Sequence[tuple[int, LayerSpec]], *, has_hybrid_manager: bool = True
) -> tuple[LayerGroup, ...]:
    """Return the groups of a whole model's layers; none without attention.

    `has_hybrid_manager` False: windows are kept as full attention beside full layers.
    """
    kept = list(specs)
    if not kept:
        return ()
    if not has_hybrid_manager:
        kept = _promoted(kept)
    layers = tuple(i for i, _ in kept)
    kinds = tuple(spec for _, spec in kept)
    if all(spec == kinds[0] for spec in kinds):
        return (LayerGroup(spec=kinds[0], layers=layers),)
    if _is_uniform_type(kinds):
        return (LayerGroup(spec=UniformTypeKVCacheSpecs(specs=kinds), layers=layers),)
    return _groups_of_one_page_size(_with_one_page_size(kept))


def _promoted(kept: list[tuple[int, LayerSpec]]) -> list[tuple[int, LayerSpec]]:
    """Keep windows as full attention where the model has full layers too.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` unify_hybrid_kv_cache_specs.
    """
    if not any(isinstance(spec, FullAttentionSpec) for _, spec in kept):
        return kept
    return [(i, _as_full(spec)) for i, spec in kept]


def _as_full(spec: LayerSpec) -> FullAttentionSpec:
    return FullAttentionSpec(
        block_size=spec.block_size,
        num_kv_heads=spec.num_kv_heads,
        head_size=spec.head_size,
        element_bytes=spec.element_bytes,
    )


def _is_uniform_type(kinds: tuple[LayerSpec, ...]) -> bool:
    """Whether all layers need the same token slots, whatever their sizes.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` UniformTypeKVCacheSpecs.from_specs.
    """
    if len({spec.block_size for spec in kinds}) > 1:
        return False
    if all(isinstance(spec, FullAttentionSpec) for spec in kinds):
        return True
    windows = {getattr(spec, "sliding_window", None) for spec in kinds}
    return len(windows) == 1


def _with_one_page_size(
    kept: list[tuple[int, LayerSpec]],
) -> list[tuple[int, LayerSpec]]:
    """Enlarge blocks until every layer's page is as large as the largest.

    Raises:
        UnknownArchitecture: where only padding would help, which is not modelled.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` unify_kv_cache_spec_page_size.
    """
    largest = max(spec.page_size_bytes for _, spec in kept)
    unified: list[tuple[int, LayerSpec]] = []
    for layer, spec in kept:
        ratio, rest = divmod(largest, spec.page_size_bytes)
        if rest:
            raise UnknownArchitecture(
                f"KV cache pages of {spec.page_size_bytes} and {largest} bytes in one "
                "model: pages that vLLM pads are not modelled yet."
            )
        unified.append((layer, replace(spec, block_size=spec.block_size * ratio)))
    return unified


def _groups_of_one_page_size(
    kept: list[tuple[int, LayerSpec]],
) -> tuple[LayerGroup, ...]:
    """Split each kind of layer into groups of as many layers.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py`
    _get_kv_cache_groups_uniform_page_size.
    """
    buckets: dict[LayerSpec, list[int]] = {}
    for layer, spec in kept:
        buckets.setdefault(spec, []).append(layer)
    sizes = [len(layers) for layers in buckets.values()]
    size = max(sizes) if max(sizes) < _MUCH_LARGER * min(sizes) else min(sizes)
    groups = []
    for spec, layers in buckets.items():
        count = -(-len(layers) // size)
        groups += [
            LayerGroup(spec=spec, layers=tuple(layers[first::count]))
            for first in range(count)
        ]
    return tuple(groups)


def blocks_per_request(groups: Sequence[LayerGroup], request: Request) -> int:
    """Return the blocks that one request takes over all groups."""
    return sum(group.spec.blocks(request) for group in groups)
