"""Backends and KV cache specs of multi-head latent attention.

Source: vLLM 0.33.0 `layers/attention/mla_attention.py` MLAAttention,
`platforms/cuda.py` _get_backend_priorities.
"""

from __future__ import annotations

from dataclasses import replace

from planner.engine.generations import DATACENTER_BLACKWELL, WORKSTATION_BLACKWELL
from planner.engine.layout import divide
from planner.errors import Refused
from planner.memory.kv_cache.backend import (
    AttentionBackend,
    AttentionSelectorConfig,
    CacheFamily,
    CachePlace,
    always,
    is_quantized,
)
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.choosing import (
    backends_by_name,
    check_kv_scales,
    select_backend,
)
from planner.memory.kv_cache.kv_spec import KVCacheSpec
from planner.memory.kv_cache.layout import kv_element_bytes
from planner.memory.kv_cache.mla_backends import (
    CutlassMLA,
    FlashAttentionMLA,
    FlashInferMLA,
    FlashMLA,
    TokenspeedMLA,
    TritonMLA,
)
from planner.memory.kv_cache.mla_sparse_backends import (
    DeepseekV32Indexer,
    FlashAttentionMLASparse,
    FlashAttentionMLASparseFA4,
    FlashInferMLASparse,
    FlashInferMLASparseSM90,
    FlashInferMLASparseSM120,
    FlashMLASparse,
)
from planner.memory.kv_cache.specs_of_latent import (
    DS_MLA_BYTES,
    INDEXER,
    MLAAttentionSpec,
)
from planner.models.caches import IndexerCacheLayer, MLALayer

_FEW_HEADS = 16
_DENSE = (
    FlashAttentionMLA(),
    FlashMLA(),
    FlashInferMLA(),
    TritonMLA(),
)
_DENSE_BLACKWELL = (
    FlashInferMLA(),
    TokenspeedMLA(),
    CutlassMLA(),
    FlashAttentionMLA(),
    FlashMLA(),
    TritonMLA(),
)
_LATENT = {
    backend.name: backend
    for backend in (
        *_DENSE_BLACKWELL,
        FlashAttentionMLASparse(),
        FlashAttentionMLASparseFA4(),
        FlashInferMLASparse(),
        FlashInferMLASparseSM90(),
        FlashInferMLASparseSM120(),
        FlashMLASparse(),
    )
}


def _named() -> dict[str, AttentionBackend]:
    return {**backends_by_name(), **_LATENT}


def priorities(
    config: AttentionSelectorConfig, num_heads: int
) -> tuple[AttentionBackend, ...]:
    """Return the backends of latent attention in vLLM's order.

    `num_heads` are those of one rank.

    Source: vLLM 0.33.0 `platforms/cuda.py` _get_backend_priorities.
    """
    if config.context.major == DATACENTER_BLACKWELL.major:
        return (*_DENSE_BLACKWELL, *_sparse_blackwell(config, num_heads))
    if config.context.major == WORKSTATION_BLACKWELL.major:
        return (TritonMLA(), FlashInferMLASparseSM120())
    sparse = (FlashAttentionMLASparse(), FlashMLASparse())
    if config.head_size == 512:  # noqa: PLR2004 - no rotated part beside 512
        return (*_DENSE, FlashInferMLASparseSM90(), *sparse)
    return (*_DENSE, *sparse, FlashInferMLASparseSM90())


def _sparse_blackwell(
    config: AttentionSelectorConfig, num_heads: int
) -> tuple[AttentionBackend, ...]:
    if is_quantized(config.kv_cache_dtype):
        return (FlashInferMLASparse(), FlashMLASparse())
    if num_heads <= _FEW_HEADS:
        return (FlashAttentionMLASparseFA4(), FlashInferMLASparse(), FlashMLASparse())
    return (FlashMLASparse(), FlashInferMLASparse())


def _dtype_of(context: CacheContext) -> str:
    """Return the layer's KV cache dtype as the user or the checkpoint sets it."""
    is_skipped = str(context.layer_index) in context.skip_layers
    return "auto" if is_skipped else context.kv_cache_dtype


def mla_backend(layer: MLALayer, context: CacheContext) -> AttentionBackend:
    """Return the backend of a layer.

    Raises:
        Refused: when none supports the layer.
    """
    context = replace(context, latent=layer)
    config = AttentionSelectorConfig(
        context=context,
        head_size=layer.head_size,
        dtype=context.dtype,
        kv_cache_dtype=_dtype_of(context),
        block_size=context.requested_block_size,
        use_mla=True,
        use_sparse=layer.index_topk is not None,
        use_dcp=context.layout.decode_context_parallel_size > 1,
    )
    heads = divide(layer.num_heads, context.layout.tensor_parallel_size)
    candidates = priorities(config, heads)
    backend = select_backend(config, candidates, _named)
    check_kv_scales(config.kv_cache_dtype, context)
    _check_divided(backend, config)
    return backend


def _check_divided(backend: AttentionBackend, config: AttentionSelectorConfig) -> None:
    """Refuse unquantised values under DCP where kernels do not support them.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/flashmla_sparse.py`
    FlashMLASparseImpl.
    """
    is_divided = config.context.layout.decode_context_parallel_size > 1
    if (
        is_divided
        and isinstance(backend, FlashMLASparse)
        and not is_quantized(config.kv_cache_dtype)
    ):
        raise Refused(
            "DCP for FlashMLA sparse requires an fp8_ds_mla kv-cache; the bf16 sparse "
            "path is not supported under DCP."
        )


def kept_dtype(backend: AttentionBackend, kv_cache_dtype: str) -> str:
    """Return the dtype in which a backend stores the requested KV cache dtype.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py`
    _canonicalize_sparse_mla_kv_cache_dtype.
    """
    is_packed = is_quantized(kv_cache_dtype) and kv_cache_dtype not in DS_MLA_BYTES
    if isinstance(backend, FlashMLASparse) and is_packed:
        return "fp8_ds_mla"
    plain_too = ("auto", "fp8", "fp8_e4m3")
    if isinstance(backend, FlashInferMLASparseSM120) and kv_cache_dtype in plain_too:
        return "fp8_ds_mla"
    return kv_cache_dtype


def mla_spec(layer: MLALayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of a layer.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py`
    MLAAttention.get_kv_cache_spec.
    """
    dtype = kept_dtype(place.backend, _dtype_of(place.context))
    return MLAAttentionSpec(
        block_size=place.sizes.block_size,
        head_size=layer.head_size,
        element_bytes=kv_element_bytes(place.context.dtype, dtype),
        kv_quant_mode=dtype if is_quantized(dtype) else "none",
        state_content_bytes=DS_MLA_BYTES.get(dtype),
        topk_buffer_width=layer.index_topk,
        is_index_group_leader=layer.has_indexer,
    )


def indexer_spec(layer: IndexerCacheLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of an indexer's cache.

    Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekV32IndexerCache.
    """
    return MLAAttentionSpec(
        block_size=place.sizes.block_size,
        head_size=layer.row_bytes,
        element_bytes=1,
        cache_role=INDEXER,
    )


FAMILIES = {
    MLALayer: CacheFamily(backend=mla_backend, spec=mla_spec),
    IndexerCacheLayer: CacheFamily(
        backend=always(DeepseekV32Indexer()), spec=indexer_spec
    ),
}
