"""Backends and KV cache specs of models with caches of their own.

MiniMax-M3's block-sparse attention, GLM-5.3-Flash's indexer, Inkling's convolutions.

Source: vLLM 0.33.0 `models/minimax_m3/common/sparse_attention.py` and `indexer.py`,
`models/minimax_m3/nvidia/model.py` MiniMaxM3SparseAttention;
`models/glm5next/common/attention.py`, `v1/attention/backends/mla/indexer.py`.
"""

from __future__ import annotations

from typing import ClassVar

from planner.engine.generations import DATACENTER_BLACKWELL, WORKSTATION_BLACKWELL
from planner.errors import Refused, UnknownArchitecture
from planner.memory.kv_cache.backend import (
    PLAIN,
    AttentionBackend,
    CacheFamily,
    CachePlace,
    always,
)
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.kv_spec import (
    AttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MultipleOf,
)
from planner.memory.kv_cache.layout import (
    KVCacheLayout,
    in_nvfp4_slots,
    kv_element_bytes,
)
from planner.memory.kv_cache.specs_of_latent import (
    INDEXER,
    CircularBufferSpec,
    MLAAttentionSpec,
)
from planner.memory.kv_cache.specs_of_states import SlidingWindowSpec
from planner.models.caches import (
    BlockSparseAttentionLayer,
    ConvolutionStreamsLayer,
    IndexerTailLayer,
    IndexKeysLayer,
    PooledIndexerLayer,
)
from planner.models.layers import kv_heads_per_rank

_BF16_BYTES = 2
_MSA_BLOCKS = (4, 8, 16, 32)
"""Numbers of selected blocks that NVIDIA's kernel for Blackwell supports."""
_KEY_AND_SCORE = 2


class MiniMaxM3Sparse(AttentionBackend):
    """Attention to selected blocks of 128 tokens, one per page."""

    name: ClassVar[str] = "MINIMAX_M3_SPARSE"
    block_sizes: ClassVar[tuple[int | MultipleOf, ...]] = (128,)
    is_sparse: ClassVar[bool] = True


class MiniMaxM3SparseNvfp4(MiniMaxM3Sparse):
    """The same with a KV cache of 4-bit floats: keys and values in their own slots."""

    own_layouts = (KVCacheLayout.LBHNC,)

    def customize_spec(self, spec: AttentionSpec) -> AttentionSpec:
        """Return the spec with two slots per head, each with its scales."""
        return in_nvfp4_slots(spec)


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
        is_msa = context.major == DATACENTER_BLACKWELL.major
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


def sparse_spec(layer: BlockSparseAttentionLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of a sparse layer: keys and values of every token."""
    dtype = place.context.kv_cache_dtype
    return FullAttentionSpec(
        block_size=place.sizes.block_size,
        num_kv_heads=kv_heads_per_rank(layer.num_kv_heads, place.context.layout),
        head_size=layer.head_size,
        element_bytes=kv_element_bytes(place.context.dtype, dtype),
        kv_quant_mode="none" if dtype in PLAIN else dtype,
    )


def index_spec(layer: IndexKeysLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of the indexer's keys, one per token in bfloat16."""
    return MLAAttentionSpec(
        block_size=place.sizes.block_size,
        head_size=layer.head_size,
        element_bytes=_BF16_BYTES,
        cache_role=INDEXER,
    )


class Glm5NextIndexer(AttentionBackend):
    """The indexer, whose pages hold 32 or 64 keys of several tokens each."""

    name: ClassVar[str] = "DEEPSEEK_V32_INDEXER"
    is_mla: ClassVar[bool] = True

    def __init__(self, tokens_per_state: int) -> None:
        """Serve keys of `tokens_per_state` tokens each."""
        self.tokens_per_state = tokens_per_state

    def kernel_block_sizes(
        self, context: CacheContext, spec: KVCacheSpec | None = None
    ) -> tuple[int | MultipleOf, ...]:
        """Return the block sizes that its kernels support, in tokens.

        Source: vLLM 0.33.0 `utils/deep_gemm.py` get_paged_mqa_page_sizes.
        """
        pages = (64,) if context.major == WORKSTATION_BLACKWELL.major else (32, 64)
        return tuple(self.tokens_per_state * page for page in pages)


class KpoolTail(AttentionBackend):
    """Tokens that are not pooled yet, beside the other pages of a block."""

    name: ClassVar[str] = "KPOOL_TAIL"
    is_mla: ClassVar[bool] = True
    own_layouts = (KVCacheLayout.BLHNC,)


def pooled_indexer_backend(
    layer: PooledIndexerLayer, _context: CacheContext
) -> AttentionBackend:
    """Return the backend of the pooled keys."""
    return Glm5NextIndexer(layer.tokens_per_state)


def pooled_indexer_spec(layer: PooledIndexerLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of the pooled keys: a row of bytes for several tokens."""
    return MLAAttentionSpec(
        block_size=place.sizes.block_size,
        head_size=layer.row_bytes,
        element_bytes=1,
        tokens_per_state=layer.tokens_per_state,
        cache_role=INDEXER,
    )


def _ring(layer: IndexerTailLayer, context: CacheContext) -> int:
    """Return the tokens of the ring: enough pools for the draft tokens, too.

    Source: vLLM 0.33.0 `models/glm5next/common/attention.py` Glm5NextTailCache.
    """
    pools = -(-(layer.num_tokens + context.num_speculative_tokens) // layer.num_tokens)
    return layer.num_tokens * (1 << (pools - 1).bit_length())


def tail_spec(layer: IndexerTailLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of the tail: key and score of each token of a pool."""
    return CircularBufferSpec(
        block_size=_ring(layer, place.context),
        num_kv_heads=_KEY_AND_SCORE,
        head_size=layer.head_size,
        head_size_v=0,
        element_bytes=_BF16_BYTES,
        dcp_sharded=False,
    )


class InklingConvolutions(AttentionBackend):
    """Short convolutions, whose pages are managed as a window's."""

    name: ClassVar[str] = "INKLING_SCONV_SWA"


def streams_spec(layer: ConvolutionStreamsLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of the inputs: a window as long as a kernel, of one wide head.

    Raises:
        Refused: in vLLM's words, for more ranks than heads and dtypes but bfloat16.
    """
    ranks, heads = place.context.layout.tensor_parallel_size, layer.num_kv_heads
    if ranks > heads:
        raise Refused(
            f"sconv SWA cache supports tp_size <= num_kv_heads ({heads}), got {ranks}"
        )
    if place.context.dtype != "bfloat16":
        raise Refused(
            f"sconv SWA cache supports bfloat16 only, got torch.{place.context.dtype}"
        )
    width = 2 * layer.head_size + 2 * (layer.hidden_size // heads)
    return SlidingWindowSpec(
        block_size=layer.kernel_size,
        num_kv_heads=heads // ranks,
        head_size=1 << (width - 1).bit_length(),
        head_size_v=0,
        element_bytes=_BF16_BYTES,
        sliding_window=layer.kernel_size,
    )


FAMILIES: dict[type, CacheFamily] = {
    ConvolutionStreamsLayer: CacheFamily(
        backend=always(InklingConvolutions()), spec=streams_spec
    ),
    BlockSparseAttentionLayer: CacheFamily(backend=sparse_backend, spec=sparse_spec),
    IndexKeysLayer: CacheFamily(backend=always(MiniMaxM3Indexer()), spec=index_spec),
    PooledIndexerLayer: CacheFamily(
        backend=pooled_indexer_backend, spec=pooled_indexer_spec
    ),
    IndexerTailLayer: CacheFamily(backend=always(KpoolTail()), spec=tail_spec),
}
