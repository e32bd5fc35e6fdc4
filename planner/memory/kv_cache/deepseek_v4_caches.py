"""Backends and KV cache specs of DeepSeek-V4's compressed attention.

Source: vLLM 0.33.0 `models/deepseek_v4/attention.py`, `models/deepseek_v4/
compressor.py`, `v1/attention/backends/mla/sparse_swa.py` and `indexer.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from planner.engine.generations import WORKSTATION_BLACKWELL
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.memory.kv_cache.backend import (
    AttentionBackend,
    CacheFamily,
    CachePlace,
    always,
)
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.kv_spec import KVCacheSpec, MultipleOf
from planner.memory.kv_cache.layout import KVCacheLayout
from planner.memory.kv_cache.specs_of_latent import (
    CompressedMLASpec,
    SlidingWindowMLASpec,
)
from planner.models.caches import (
    FLASHINFER_HEADS,
    FLASHMLA_HEADS,
    CompressedIndexerLayer,
    CompressedMLALayer,
    CompressorStateLayer,
    SlidingWindowMLALayer,
)

_PACKED = "fp8_ds_mla"
_PACKED_TOKEN_BYTES = 584
"""448 bytes of FP8, 64 rotated elements of 2 bytes, 8 bytes of scales."""
_PACKED_ALIGNMENT, _PLAIN_ALIGNMENT = 576, 512
_WINDOW_BLOCK = 64
_OVERLAPPING = 4
_STATE_BLOCKS = {4: 4, 128: 8}
"""Tokens in a block of a compressor's states, by its compression ratio."""
_SCALED = 128
"""Elements of an index key that share a float32 scale."""
_FLASHINFER = "FLASHINFER_MLA_SPARSE_DSV4"


class DeepseekV4Sparse(AttentionBackend):
    """FlashMLA and FlashInfer for DeepSeek-V4: blocks of 256 tokens."""

    name: ClassVar[str] = "FLASHMLA_SPARSE_DSV4"
    block_sizes: ClassVar[tuple[int | MultipleOf, ...]] = (256,)
    is_mla: ClassVar[bool] = True
    is_sparse: ClassVar[bool] = True


class DeepseekV4Indexer(AttentionBackend):
    """DeepSeek-V4's indexer, whose pages are beside those of the attention."""

    name: ClassVar[str] = "DEEPSEEK_V4_INDEXER"
    block_sizes: ClassVar[tuple[int | MultipleOf, ...]] = (256,)
    is_mla: ClassVar[bool] = True
    own_layouts = (KVCacheLayout.BLHNC, KVCacheLayout.BLNHC)
    """The layers of a block are within it."""


class DeepseekSparseSWA(AttentionBackend):
    """The window of DeepSeek-V4's attention."""

    name: ClassVar[str] = "DEEPSEEK_SPARSE_SWA"
    block_sizes: ClassVar[tuple[int | MultipleOf, ...]] = (MultipleOf(base=32),)
    is_mla: ClassVar[bool] = True

    def preferred_block_size(self, default: int, context: CacheContext) -> int:
        """Return the block size of a model with windows only."""
        return 256


class Compressor(AttentionBackend):
    """States of compressors, which support blocks of any size."""

    name: ClassVar[str] = "CompressorBackend"


def kept_dtype(context: CacheContext) -> str:
    """Return the dtype in which DeepSeek-V4 stores its vectors.

    Raises:
        Refused: in vLLM's words, for a KV cache dtype that its kernels do not support.
        UnknownArchitecture: for an attention_backend that is not modelled.

    Source: vLLM 0.33.0 `models/deepseek_v4/attention.py`
    _resolve_dsv4_kv_cache_dtype; `models/deepseek_v4/nvidia/model.py`
    _select_dsv4_attn_cls.
    """
    dtype = context.kv_cache_dtype
    if not _is_packed(context):
        return dtype
    takes_auto = context.layout.release.has(_TAKES_AUTO)
    if not dtype.startswith("fp8") and not (dtype == "auto" and takes_auto):
        raise Refused(_only_fp8(dtype, context.layout.release))
    return _PACKED


_TAKES_AUTO = Change(
    since=(0, 30),
    what=(
        'kv_cache_dtype="auto" means fp8 for DeepSeek-V4. Before, fp8 had to be set.'
    ),
    source=(
        "vLLM 0.29.0 and 0.30.0 `models/deepseek_v4/attention.py` "
        "_resolve_dsv4_kv_cache_dtype"
    ),
)
_NAMES_FLASHMLA_LAYOUT = Change(
    since=(0, 23),
    what="The refusal of a KV cache dtype of DeepSeek-V4 names FlashMLA's layout.",
    source="vLLM 0.22.0 and 0.23.0 `models/deepseek_v4/attention.py`",
)
_NAMES_PACKED_LAYOUT = Change(
    since=(0, 24),
    what="The refusal of a KV cache dtype of DeepSeek-V4 names the layout fp8_ds_mla.",
    source="vLLM 0.23.0 and 0.24.0 `models/deepseek_v4/attention.py`",
)


def _only_fp8(dtype: str, release: Release) -> str:
    """Return the refusal of a dtype: assertions until 0.29.

    Source: vLLM 0.30.0 `models/deepseek_v4/attention.py`.
    """
    if not release.has(_NAMES_FLASHMLA_LAYOUT):
        return f"DeepseekV4 only supports fp8 kv-cache format for now, got {dtype}"
    if not release.has(_NAMES_PACKED_LAYOUT):
        return f"DeepseekV4 FlashMLA fp8 layout only supports fp8 kv-cache, got {dtype}"
    text = f"DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got {dtype}"
    if not release.has(_TAKES_AUTO):
        return text
    return (
        f"{text}. Please set `--kv-cache-dtype fp8` or select a backend that supports "
        "bfloat16 KV cache."
    )


def _is_packed(context: CacheContext) -> bool:
    requested = (context.requested_backend or "").upper()
    if requested in ("FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120"):
        raise Refused(
            f"{requested} is not a DeepSeek V4 attention backend. Use "
            "FLASHINFER_MLA_SPARSE_DSV4 for DeepSeek V4 FlashInfer sparse MLA."
        )
    if requested == _FLASHINFER:
        return context.major == WORKSTATION_BLACKWELL.major
    if requested and requested not in ("FLASHMLA_SPARSE", "FLASHMLA_SPARSE_DSV4"):
        raise UnknownArchitecture(
            f"attention_backend={context.requested_backend!r} is not modelled for "
            "DeepSeek-V4. Leave it out."
        )
    return True


def _check_heads(context: CacheContext) -> None:
    """Refuse more query heads on a rank than the kernel supports.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `models/deepseek_v4/nvidia/flashmla.py` and
    `flashinfer_sparse.py` get_padded_num_q_heads.
    """
    heads = context.num_heads_per_rank
    requests_flashinfer = (context.requested_backend or "").upper() == _FLASHINFER
    if context.major == WORKSTATION_BLACKWELL.major or requests_flashinfer:
        if heads > max(FLASHINFER_HEADS):
            raise Refused(
                f"DeepseekV4 FlashInfer MLA Sparse does not support {heads} heads "
                "(sparse MLA kernel requires h_q in {8, 16, 32, 64, 128})."
            )
    elif heads > max(FLASHMLA_HEADS):
        raise Refused(
            f"DeepseekV4 FlashMLA does not support {heads} heads "
            "(FP8 decode kernel requires h_q in {64, 128})."
        )


def _alignment_bytes(context: CacheContext) -> int:
    is_packed = kept_dtype(context) == _PACKED
    return _PACKED_ALIGNMENT if is_packed else _PLAIN_ALIGNMENT


def _vectors(head_size: int, context: CacheContext) -> dict[str, Any]:
    """Return the fields of a spec that describe a token's vectors."""
    dtype = kept_dtype(context)
    is_packed = dtype == _PACKED
    return {
        "num_kv_heads": 1,
        "head_size": head_size,
        "element_bytes": 1 if is_packed or dtype.startswith("fp8") else 2,
        "state_content_bytes": _PACKED_TOKEN_BYTES if is_packed else None,
        "kv_quant_mode": dtype,
        "cache_dtype": dtype,
        "alignment_bytes": _alignment_bytes(context),
        "model_version": "deepseek_v4",
    }


def window_spec(layer: SlidingWindowMLALayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of a layer's window."""
    return SlidingWindowMLASpec(
        block_size=_WINDOW_BLOCK,
        sliding_window=layer.window,
        **_vectors(layer.head_size, place.context),
    )


def compressed_spec(layer: CompressedMLALayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of the compressed tokens.

    Raises:
        Refused: in vLLM's words, for blocks smaller than one compressed token.
    """
    if place.sizes.block_size < layer.compress_ratio:
        raise Refused("ZeroDivisionError: integer division or modulo by zero")
    return CompressedMLASpec(
        block_size=place.sizes.block_size,
        tokens_per_state=layer.compress_ratio,
        **_vectors(layer.head_size, place.context),
    )


def indexer_spec(layer: CompressedIndexerLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of the indexer's keys: bytes, and a scale per 128 of them."""
    return CompressedMLASpec(
        block_size=place.sizes.block_size,
        num_kv_heads=1,
        head_size=layer.head_size + layer.head_size // _SCALED * 4,
        element_bytes=1,
        tokens_per_state=layer.compress_ratio,
        alignment_bytes=_alignment_bytes(place.context),
    )


def state_spec(layer: CompressorStateLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of a compressor's states: a vector and a score in float32.

    Compressors of the lower ratio overlap two groups of tokens.
    """
    groups = 2 if layer.compress_ratio == _OVERLAPPING else 1
    return SlidingWindowMLASpec(
        block_size=_STATE_BLOCKS[layer.compress_ratio],
        num_kv_heads=1,
        head_size=2 * groups * layer.head_size,
        element_bytes=4,
        sliding_window=groups * layer.compress_ratio,
        alignment_bytes=_alignment_bytes(place.context),
    )


def _sparse(_layer: object, context: CacheContext) -> AttentionBackend:
    kept_dtype(context)
    return DeepseekV4Sparse()


def _window(_layer: object, context: CacheContext) -> AttentionBackend:
    _check_heads(context)
    kept_dtype(context)
    return DeepseekSparseSWA()


FAMILIES: dict[type, CacheFamily] = {
    SlidingWindowMLALayer: CacheFamily(backend=_window, spec=window_spec),
    CompressedMLALayer: CacheFamily(backend=_sparse, spec=compressed_spec),
    CompressedIndexerLayer: CacheFamily(
        backend=always(DeepseekV4Indexer()), spec=indexer_spec
    ),
    CompressorStateLayer: CacheFamily(backend=always(Compressor()), spec=state_spec),
}
