"""Backends and KV cache specs of MiniMax-M3's block-sparse attention.

Source: vLLM 0.33.0 `models/minimax_m3/common/sparse_attention.py` and `indexer.py`,
`models/minimax_m3/nvidia/model.py` MiniMaxM3SparseAttention.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from planner.engine.layout import DATACENTER_BLACKWELL
from planner.errors import Refused, UnknownArchitecture
from planner.memory.kv_cache.backend import (
    PLAIN,
    AttentionBackend,
    CacheFamily,
    customized,
)
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.kv_spec import (
    AttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MultipleOf,
)
from planner.memory.kv_cache.layout import KVCacheLayout, kv_element_bytes, nvfp4_bytes
from planner.memory.kv_cache.specs_of_latent import INDEXER, MLAAttentionSpec
from planner.models.caches import BlockSparseAttentionLayer, IndexKeysLayer
from planner.models.layers import kv_heads_per_rank

_BF16_BYTES = 2
_MSA_BLOCKS = (4, 8, 16, 32)
"""Numbers of selected blocks that NVIDIA's kernel for Blackwell supports."""


class MiniMaxM3Sparse(AttentionBackend):
    """Attention to selected blocks of 128 tokens, one per page."""

    name: ClassVar[str] = "MINIMAX_M3_SPARSE"
    block_sizes: ClassVar[tuple[int | MultipleOf, ...]] = (128,)
    is_sparse: ClassVar[bool] = True


class MiniMaxM3SparseNvfp4(MiniMaxM3Sparse):
    """The same with a KV cache of 4-bit floats: keys and values in their own slots."""

    def customize_spec(self, spec: AttentionSpec) -> AttentionSpec:
        """Return the spec with two slots per head, each with its scales."""
        return replace(
            spec,
            num_head_slots=2 * spec.num_kv_heads,
            state_content_bytes=nvfp4_bytes(spec.head_size),
        )

    def layouts(self, context: CacheContext) -> tuple[KVCacheLayout, ...]:  # noqa: ARG002
        """Return the layouts that its kernels support: each head contiguous."""
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
        Refused: in vLLM's words, for a 4-bit KV cache on GPUs other than Blackwell.
        UnknownArchitecture: for KV cache dtypes whose pages are not modelled.

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
    """Return the spec of the indexer's keys, one per token in bfloat16."""
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
