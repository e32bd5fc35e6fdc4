"""Backends and KV cache specs of Step 5's attention and of its indexer.

Source: vLLM 0.33.0 `models/step5/nvidia/`: `sparse_attention.py`,
`sparse_summary_cache.py` and `csa_tail_ring.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from planner.errors import Refused
from planner.memory.kv_cache.attention_backends import FlashAttention
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
from planner.memory.kv_cache.layout import KVCacheLayout, kv_element_bytes, quant_mode
from planner.memory.kv_cache.specs_of_latent import CircularBufferSpec
from planner.models.caches import (
    RegionSummaryLayer,
    RegionTailLayer,
    SummarisedAttentionLayer,
)
from planner.models.layers import kv_heads_per_rank

REGION = 8
"""Tokens that one summary stands for."""
_BF16_BYTES = 2
_HEAD_SIZE = 192
_QUERIES_PER_KV_HEAD = (4, 8, 16)
_GPUS = ((9, 0), (10, 0), (10, 3))
_CACHE_DTYPES = (*PLAIN, "fp8", "fp8_e4m3")


class Step5Dsa(FlashAttention):
    """Attention to chosen regions, with their summaries inside each block."""

    name = "STEP5_DSA"
    is_sparse: ClassVar[bool] = True
    has_sliding_window = False
    own_layouts = (KVCacheLayout.BLNHC,)
    """The layers of a block are side by side."""

    def customize_spec(self, spec: AttentionSpec) -> AttentionSpec:
        """Return the spec whose blocks are a whole number of pages of eight tokens."""
        return replace(spec, block_stride_alignment=MultipleOf(base=REGION))


class RegionSummaries(AttentionBackend):
    """The indexer's summaries."""

    name: ClassVar[str] = "STEP5_CSA_SUMMARY"


class RegionTails(AttentionBackend):
    """The rows of a region that is not full yet."""

    name: ClassVar[str] = "STEP5_CSA_TAIL_RING"


def _check(layer: SummarisedAttentionLayer, context: CacheContext) -> None:
    """Refuse what the kernels do not compute.

    Raises:
        Refused: in vLLM's words.
    """
    if context.gpu.compute_capability not in _GPUS:
        raise Refused("Step5 DSA is not supported on this GPU's compute capability.")
    if context.dtype != "bfloat16":
        raise Refused(
            "Step5 DSA kernels require bfloat16 activations, got "
            f"torch.{context.dtype}."
        )
    if layer.head_size != _HEAD_SIZE:
        raise Refused(
            f"Step5 DSA kernels require head_size 192, got {layer.head_size}."
        )
    queries = layer.num_heads // layer.num_kv_heads
    if queries not in _QUERIES_PER_KV_HEAD:
        raise Refused(
            f"Step5 DSA kernels require q_heads_per_kv in {{4, 8, 16}}, got {queries}."
        )
    if context.kv_cache_dtype not in _CACHE_DTYPES:
        raise Refused(
            f"Step5 DSA does not support kv_cache_dtype={context.kv_cache_dtype!r}."
        )


def attention_backend(
    layer: SummarisedAttentionLayer, context: CacheContext
) -> AttentionBackend:
    """Return the backend of sparse attention.

    Raises:
        Refused: for what its kernels do not compute.
    """
    _check(layer, context)
    return Step5Dsa()


def attention_spec(layer: SummarisedAttentionLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of the attention: keys and values of every token."""
    return FullAttentionSpec(
        block_size=place.sizes.block_size,
        num_kv_heads=kv_heads_per_rank(layer.num_kv_heads, place.context.layout),
        head_size=layer.head_size,
        element_bytes=kv_element_bytes(
            place.context.dtype, place.context.kv_cache_dtype
        ),
        kv_quant_mode=quant_mode(place.context.kv_cache_dtype),
    )


def summary_spec(layer: RegionSummaryLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of the summaries: a row of bytes for eight tokens.

    Raises:
        Refused: in vLLM's words, for blocks that end within a region.
    """
    if place.sizes.block_size % REGION:
        raise Refused("Step5 KV blocks must align to eight-token regions")
    return FullAttentionSpec(
        block_size=place.sizes.block_size,
        num_kv_heads=1,
        head_size=layer.width,
        head_size_v=0,
        element_bytes=1,
        tokens_per_state=REGION,
    )


def tail_spec(layer: RegionTailLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of the open region: a page as large as the attention's.

    Raises:
        Refused: where such a page has too few rows.
    """
    page = attention_spec(layer.attention, place).page_size_bytes
    row = 2 * layer.width * _BF16_BYTES
    if page % row or page // row < REGION - 1 + place.context.num_speculative_tokens:
        raise Refused(
            f"Step5 CSA tail ring: a KV page of {page} bytes has too few rows of "
            f"{row} bytes."
        )
    return CircularBufferSpec(
        block_size=place.sizes.block_size,
        num_kv_heads=1,
        head_size=page // (place.sizes.block_size * _BF16_BYTES),
        head_size_v=0,
        element_bytes=_BF16_BYTES,
        dcp_sharded=False,
        block_stride_alignment=row,
    )


FAMILIES: dict[type, CacheFamily] = {
    SummarisedAttentionLayer: CacheFamily(
        backend=attention_backend, spec=attention_spec
    ),
    RegionSummaryLayer: CacheFamily(
        backend=always(RegionSummaries()), spec=summary_spec
    ),
    RegionTailLayer: CacheFamily(backend=always(RegionTails()), spec=tail_spec),
}
