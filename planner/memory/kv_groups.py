"""From layers to KV cache groups: which layers share a block table, how big a block is.

Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` get_kv_cache_groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.dtypes import FP8_KV_CACHE_DTYPES as FP8
from planner.dtypes import element_bytes
from planner.layers import kv_heads_per_rank
from planner.memory.kv_spec import (
    FullAttentionSpec,
    KVCacheSpec,
    UniformTypeKVCacheSpecs,
)
from planner.model import AttentionLayer, ModelArchitecture
from planner.parallel import ParallelLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """Layers of the whole model that share a block table, and their spec."""

    spec: KVCacheSpec
    num_layers: int

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block over all layers of the group."""
        if isinstance(self.spec, UniformTypeKVCacheSpecs):
            return self.spec.page_size_bytes
        return self.spec.page_size_bytes * self.num_layers

    def blocks_per_request(self, max_model_len: int, dcp_size: int) -> int:
        """Blocks that one request of `max_model_len` tokens needs."""
        needed = self.spec.max_memory_usage_bytes(max_model_len, dcp_size)
        return -(-needed // self.spec.page_size_bytes)


def layer_specs(
    model: ModelArchitecture,
    layout: ParallelLayout,
    block_size: int,
    *,
    dtype: str,
    kv_cache_dtype: str,
) -> tuple[FullAttentionSpec | None, ...]:
    """Return the KV cache spec of each layer; None where a layer keeps none.

    Raises:
        Refused: when KV heads and tensor parallel size do not divide each other.
    """
    by_kind = [
        None
        if kind.attention is None
        else FullAttentionSpec(
            block_size=block_size,
            num_kv_heads=kv_heads_per_rank(kind.attention.num_kv_heads, layout),
            head_size=kind.attention.head_size,
            element_bytes=_element_size(kind.attention, dtype, kv_cache_dtype),
        )
        for kind in model.layer_kinds
    ]
    return tuple(by_kind[index] for index in model.layers)


def _element_size(layer: AttentionLayer, dtype: str, kv_cache_dtype: str) -> int:
    """Bytes of one K or V value.

    Source: vLLM 0.33.0 `utils/torch_utils.py` STR_DTYPE_TO_TORCH_DTYPE.
    """
    if kv_cache_dtype == "auto" or not layer.heeds_kv_cache_dtype:
        return element_bytes(dtype)
    return 1 if kv_cache_dtype in FP8 else element_bytes(kv_cache_dtype)


def group(specs: Sequence[FullAttentionSpec | None]) -> tuple[LayerGroup, ...]:
    """Return the groups of these layers: one, or none without attention."""
    kept = tuple(spec for spec in specs if spec is not None)
    if not kept:
        return ()
    if all(spec == kept[0] for spec in kept):
        return (LayerGroup(spec=kept[0], num_layers=len(kept)),)
    return (LayerGroup(spec=UniformTypeKVCacheSpecs(specs=kept), num_layers=len(kept)),)
