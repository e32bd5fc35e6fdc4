"""Backends and KV cache specs of GLM-5.3-Flash's indexer.

Source: vLLM 0.33.0 `models/glm5next/common/attention.py`,
`v1/attention/backends/mla/indexer.py`.
"""

from __future__ import annotations

from typing import ClassVar

from planner.engine.layout import WORKSTATION_BLACKWELL
from planner.memory.kv_cache.backend import AttentionBackend, CacheFamily, customized
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.kv_spec import KVCacheSpec, MultipleOf
from planner.memory.kv_cache.layout import KVCacheLayout
from planner.memory.kv_cache.specs_of_latent import (
    INDEXER,
    CircularBufferSpec,
    MLAAttentionSpec,
)
from planner.models.caches import IndexerTailLayer, PooledIndexerLayer

_BF16_BYTES = 2
_KEY_AND_SCORE = 2


class Glm5NextIndexer(AttentionBackend):
    """The indexer, whose pages hold 32 or 64 keys of several tokens each."""

    name: ClassVar[str] = "DEEPSEEK_V32_INDEXER"
    is_mla: ClassVar[bool] = True

    def __init__(self, tokens_per_state: int) -> None:
        """Serve keys of `tokens_per_state` tokens each."""
        self.tokens_per_state = tokens_per_state

    def kernel_block_sizes(
        self,
        context: CacheContext,
        spec: KVCacheSpec | None = None,  # noqa: ARG002
    ) -> tuple[int | MultipleOf, ...]:
        """Return the block sizes that its kernels support, in tokens.

        Source: vLLM 0.33.0 `utils/deep_gemm.py` get_paged_mqa_page_sizes.
        """
        pages = (64,) if context.major == WORKSTATION_BLACKWELL else (32, 64)
        return tuple(self.tokens_per_state * page for page in pages)


class KpoolTail(AttentionBackend):
    """Tokens that are not pooled yet, beside the other pages of a block."""

    name: ClassVar[str] = "KPOOL_TAIL"
    is_mla: ClassVar[bool] = True

    def layouts(self, context: CacheContext) -> tuple[KVCacheLayout, ...]:  # noqa: ARG002
        """Return the layouts that its kernels support."""
        return (KVCacheLayout.BLHNC,)


def indexer_backend(
    layer: PooledIndexerLayer, _context: CacheContext
) -> AttentionBackend:
    """Return the backend of the pooled keys."""
    return Glm5NextIndexer(layer.tokens_per_state)


def indexer_spec(
    layer: PooledIndexerLayer,
    backend: AttentionBackend,
    context: CacheContext,
    sizes: BlockSizes,
) -> KVCacheSpec:
    """Return the spec of the pooled keys: a row of bytes for several tokens."""
    spec = MLAAttentionSpec(
        block_size=sizes.block_size,
        head_size=layer.row_bytes,
        element_bytes=1,
        tokens_per_state=layer.tokens_per_state,
        cache_role=INDEXER,
    )
    return customized(spec, backend, context)


def tail_backend(_layer: IndexerTailLayer, _context: CacheContext) -> AttentionBackend:
    """Return the backend of the tail."""
    return KpoolTail()


def _ring(layer: IndexerTailLayer, context: CacheContext) -> int:
    """Return the tokens of the ring: enough pools for the draft tokens, too.

    Source: vLLM 0.33.0 `models/glm5next/common/attention.py` Glm5NextTailCache.
    """
    pools = -(-(layer.num_tokens + context.num_speculative_tokens) // layer.num_tokens)
    return layer.num_tokens * (1 << (pools - 1).bit_length())


def tail_spec(
    layer: IndexerTailLayer,
    backend: AttentionBackend,
    context: CacheContext,
    _sizes: BlockSizes,
) -> KVCacheSpec:
    """Return the spec of the tail: key and score of each token of a pool."""
    spec = CircularBufferSpec(
        block_size=_ring(layer, context),
        num_kv_heads=_KEY_AND_SCORE,
        head_size=layer.head_size,
        head_size_v=0,
        element_bytes=_BF16_BYTES,
        dcp_sharded=False,
    )
    return customized(spec, backend, context)


FAMILIES: dict[type, CacheFamily] = {
    PooledIndexerLayer: CacheFamily(backend=indexer_backend, spec=indexer_spec),
    IndexerTailLayer: CacheFamily(backend=tail_backend, spec=tail_spec),
}
