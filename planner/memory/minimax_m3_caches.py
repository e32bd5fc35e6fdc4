"""Backends and KV cache specs of MiniMax-M3's block-sparse attention.

Source: vLLM 0.33.0 `models/minimax_m3/common/sparse_attention.py` and `indexer.py`,
`models/minimax_m3/nvidia/model.py` MiniMaxM3SparseAttention.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from planner.caches import BlockSparseAttentionLayer, IndexKeysLayer
from planner.errors import Refused, UnknownArchitecture
from planner.layers import kv_heads_per_rank
from planner.memory.backend import PLAIN, AttentionBackend, customized
from planner.memory.cache_context import BlockSizes, CacheContext
from planner.memory.cache_family import CacheFamily
from planner.memory.kv_layout import KVCacheLayout
from planner.memory.kv_packing import kv_element_bytes, nvfp4_bytes
from planner.memory.kv_spec import (
    AttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MultipleOf,
)
from planner.memory.mla_specs import INDEXER, MLAAttentionSpec
from planner.parallel import DATACENTER_BLACKWELL

_BF16_BYTES = 2
_MSA_BLOCKS = (4, 8, 16, 32)
"""Blocks chosen for a token that NVIDIA's kernel of Blackwell takes."""


class MiniMaxM3Sparse(AttentionBackend):
    """Attention to chosen blocks of 128 tokens, one to a page."""

    name: ClassVar[str] = "MINIMAX_M3_SPARSE"
    block_sizes: ClassVar[tuple[int | MultipleOf, ...]] = (128,)
    is_sparse: ClassVar[bool] = True


class MiniMaxM3SparseNvfp4(MiniMaxM3Sparse):
    """The same over a KV cache of 4 bit floats: keys and values in slots of a head."""

    def customize_spec(self, spec: AttentionSpec) -> AttentionSpec:
        """Return the spec with two slots of a head, each with its scales."""
        return replace(
            spec,
            num_head_slots=2 * spec.num_kv_heads,
            state_content_bytes=nvfp4_bytes(spec.head_size),
        )

    def layouts(self, context: CacheContext) -> tuple[KVCacheLayout, ...]:  # noqa: ARG002
        """Return the layouts its kernels read: all of a head side by side."""
        return (KVCacheLayout.LBHNC,)


class MiniMaxM3Indexer(AttentionBackend):
    """The indexer's keys, in blocks of 128 tokens."""

    name: ClassVar[str] = "MINIMAX_M3_SPARSE_INDEXER"
    block_sizes: ClassVar[tuple[int | MultipleOf, ...]] = (128,)
    is_sparse: ClassVar[bool] = True


def sparse_backend(
    layer: BlockSparseAttentionLayer, context: CacheContext
) -> AttentionBackend:
    """Return the backend of a sparse layer.

    Raises:
        Refused: in vLLM's words, for a KV cache of 4 bits elsewhere than on Blackwell.
        UnknownArchitecture: for KV cache dtypes whose pages are not known.

    Source: vLLM 0.33.0 `models/minimax_m3/common/sparse_attention.py`
    select_main_backend_and_impl_cls.
    """
    dtype = context.kv_cache_dtype
    if dtype == "nvfp4":
        is_msa = context.major == DATACENTER_BLACKWELL
        if not is_msa or layer.topk_blocks not in _MSA_BLOCKS:
            raise Refused(
                "MiniMax M3 sparse attention supports an NVFP4 KV cache only with the "
                f"SM100 MSA backend (kv_cache_dtype={dtype}, "
                f"topk_blocks={layer.topk_blocks})"
            )
        return MiniMaxM3SparseNvfp4()
    if dtype not in PLAIN and not dtype.startswith("fp8"):
        raise UnknownArchitecture(
            f"kv_cache_dtype={dtype!r} is not modelled for MiniMax-M3. Leave it out."
        )
    return MiniMaxM3Sparse()


def sparse_spec(
    layer: BlockSparseAttentionLayer,
    backend: AttentionBackend,
    context: CacheContext,
    sizes: BlockSizes,
) -> KVCacheSpec:
    """Return the spec of a sparse layer: keys and values of every token."""
    dtype = context.kv_cache_dtype
    spec = FullAttentionSpec(
        block_size=sizes.block_size,
        num_kv_heads=kv_heads_per_rank(layer.num_kv_heads, context.layout),
        head_size=layer.head_size,
        element_bytes=kv_element_bytes(context.dtype, dtype),
        kv_quant_mode="none" if dtype in PLAIN else dtype,
    )
    return customized(spec, backend, context)


def index_backend(_layer: IndexKeysLayer, _context: CacheContext) -> AttentionBackend:
    """Return the backend of the indexer's keys."""
    return MiniMaxM3Indexer()


def index_spec(
    layer: IndexKeysLayer,
    backend: AttentionBackend,
    context: CacheContext,
    sizes: BlockSizes,
) -> KVCacheSpec:
    """Return the spec of the indexer's keys, one a token in bfloat16."""
    spec = MLAAttentionSpec(
        block_size=sizes.block_size,
        head_size=layer.head_size,
        element_bytes=_BF16_BYTES,
        cache_role=INDEXER,
    )
    return customized(spec, backend, context)


FAMILIES: dict[type, CacheFamily] = {
    BlockSparseAttentionLayer: CacheFamily(backend=sparse_backend, spec=sparse_spec),
    IndexKeysLayer: CacheFamily(backend=index_backend, spec=index_spec),
}
