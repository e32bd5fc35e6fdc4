"""The backends of sparse latent attention, where an indexer selects the tokens.

Source: vLLM 0.33.0 `v1/attention/backends/mla/*sparse*.py`, `indexer.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from planner.engine.generations import (
    DATACENTER_BLACKWELL,
    HOPPER,
    WORKSTATION_BLACKWELL,
)
from planner.engine.releases.change import Change
from planner.engine.releases.shared import CONSIDERS_SPARSE_FLASH_ATTENTION
from planner.memory.kv_cache.backend import (
    PLAIN,
    AttentionBackend,
    AttentionSelectorConfig,
)
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.kv_spec import AttentionSpec, KVCacheSpec, MultipleOf
from planner.memory.kv_cache.mla_backends import E4M3, LatentBackend
from planner.models.caches import MLALayer

_PAGES_OF_64 = (MultipleOf(base=64),)
_DEEPSEEK_LATENT = (512, 64)
"""kv_lora_rank and qk_rope_head_dim of DeepSeek's models."""
_CONSIDERS_FLASHINFER = Change(
    since=(0, 17),
    what="vLLM considers FLASHINFER_MLA_SPARSE for sparse latent attention on B200.",
)
_CONSIDERS_FLASH_ATTENTION_4 = Change(
    since=(0, 33),
    what=(
        "vLLM considers FlashAttention 4 (FLASH_ATTN_MLA_SPARSE_FA4) for sparse latent "
        "attention on B200, for few heads and a KV cache that is not quantised."
    ),
)
_CONSIDERS_FLASHINFER_ON_HOPPER = Change(
    since=(0, 30),
    what=(
        "vLLM considers FLASHINFER_MLA_SPARSE_SM90 for sparse latent attention on "
        "Hopper."
    ),
)
_CONSIDERS_FLASHINFER_ON_RTX = Change(
    since=(0, 24),
    what=(
        "vLLM considers FLASHINFER_MLA_SPARSE_SM120 for sparse latent attention on RTX "
        "Blackwell."
    ),
)


def aligned_to_rows(spec: AttentionSpec, rows: int = 1) -> AttentionSpec:
    """Return the spec with blocks aligned to whole rows, as sparse kernels read it.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/sparse_utils.py`
    align_blocks_to_rows.
    """
    step = rows * spec.state_content_size_bytes
    return replace(spec, block_stride_alignment=step)


class SparseBackend(LatentBackend):
    """What the backends of sparse latent attention have in common."""

    block_sizes: ClassVar[tuple[int | MultipleOf, ...]] = _PAGES_OF_64
    rows: ClassVar[int] = 1
    """Rows per page in its kernels' view of the cache."""
    is_sparse = True
    has_dcp = False

    def customize_spec(self, spec: AttentionSpec) -> AttentionSpec:
        """Return the spec with blocks aligned to whole pages."""
        return aligned_to_rows(spec, self.rows)


class FlashAttentionMLASparse(SparseBackend):
    """FLASH_ATTN_MLA_SPARSE.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/flashattn_mla_sparse.py`
    FlashAttnMLASparseBackend.
    """

    name = "FLASH_ATTN_MLA_SPARSE"
    change = CONSIDERS_SPARSE_FLASH_ATTENTION
    kv_cache_dtypes = PLAIN
    head_sizes = ()
    majors = (HOPPER.major,)

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why it refuses a quantised cache, another GPU, or DCP."""
        if config.kv_cache_dtype not in PLAIN:
            return (
                "FlashAttention MLA Sparse currently supports only FP16/BF16 KV cache"
            )
        if config.context.major != HOPPER.major:
            return "FlashAttention MLA not supported on this device"
        if config.context.layout.decode_context_parallel_size > 1:
            return "FlashAttention MLA Sparse does not support DCP for now"
        layer = config.context.latent
        if layer is not None and layer.index_topk is None:
            return "FlashAttention MLA Sparse requires model with index_topk"
        return None


class FlashMLASparse(SparseBackend):
    """FLASHMLA_SPARSE.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/flashmla_sparse.py`.
    """

    name = "FLASHMLA_SPARSE"
    dtypes = ("bfloat16",)
    kv_cache_dtypes = ("auto", "bfloat16", "fp8_ds_mla", "fp8", "nvfp4_ds_mla")
    head_sizes = (576, 512)
    majors = (HOPPER.major, DATACENTER_BLACKWELL.major)
    has_dcp = True

    def kernel_block_sizes(
        self, context: CacheContext, spec: KVCacheSpec | None = None
    ) -> tuple[int | MultipleOf, ...]:
        """Return the block sizes that its kernels support."""
        is_packed = isinstance(spec, AttentionSpec) and spec.kv_quant_mode != "none"
        if is_packed and context.major == DATACENTER_BLACKWELL.major:
            return (64,)
        return self.block_sizes

    def stored(self, spec: AttentionSpec, context: CacheContext) -> AttentionSpec:
        """Return the spec as its kernels read it on that GPU."""
        if spec.kv_quant_mode != "none" and context.major != DATACENTER_BLACKWELL.major:
            return replace(spec, block_stride_alignment=MultipleOf(base=64))
        return aligned_to_rows(spec)

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why it refuses a head size or a quantised cache on that GPU."""
        dtype, gpu = config.kv_cache_dtype, config.context.gpu
        if config.head_size == sum(_DEEPSEEK_LATENT[:1]):
            reason = self._without_rope(dtype, config.context)
            if reason is not None:
                return reason
        if dtype == "nvfp4_ds_mla" and gpu.compute_capability[0] != (
            DATACENTER_BLACKWELL.major
        ):
            return (
                f"FLASHMLA_SPARSE only supports the {dtype} kv-cache dtype on SM100 "
                "(Blackwell)"
            )
        return None

    def _without_rope(self, dtype: str, context: CacheContext) -> str | None:
        if dtype in (*PLAIN, "fp8_ds_mla") and context.major == HOPPER.major:
            if context.latent is None or context.latent.qk_rope_head_dim == 0:
                return None
            return (
                "FLASHMLA_SPARSE supports head_size 512 only for rope-free (NoPE) "
                "models"
            )
        major, minor = context.gpu.compute_capability
        return (
            "FLASHMLA_SPARSE supports head_size 512 only with bf16 or fp8_ds_mla "
            f"kv-cache on SM90 (NoPE), got kv_cache_dtype={dtype}, "
            f"capability=DeviceCapability(major={major}, minor={minor})"
        )


class FlashInferMLASparse(SparseBackend):
    """FLASHINFER_MLA_SPARSE.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/flashinfer_mla_sparse.py`
    FlashInferMLASparseTRTLLMBackend.
    """

    name = "FLASHINFER_MLA_SPARSE"
    change = _CONSIDERS_FLASHINFER
    head_sizes: ClassVar[tuple[int, ...]] = (512, 576)
    block_sizes = (MultipleOf(base=32),)
    rows = 32
    majors = (DATACENTER_BLACKWELL.major,)
    has_dcp = True

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why it refuses a quantised cache, or keys of other sizes."""
        if config.kv_cache_dtype == "fp8_ds_mla":
            return f"{self.name} SM10 does not support fp8_ds_mla kv-cache dtype"
        layer = config.context.latent
        return None if layer is None else _flashinfer_sizes(layer)


def _flashinfer_sizes(layer: MLALayer) -> str | None:
    size = layer.qk_nope_head_dim
    if layer.qk_rope_head_dim == 0:
        if (size, layer.kv_lora_rank) == (256, 512):
            return _missing_topk(layer)
        return (
            "FlashInfer native no-rope MLA requires qk_nope_head_dim=256 and "
            f"kv_lora_rank=512, but got qk_nope_head_dim={size}, "
            f"kv_lora_rank={layer.kv_lora_rank}"
        )
    if size in (128, 192):
        return _missing_topk(layer)
    return (
        "FlashInfer MLA Sparse kernel requires qk_nope_head_dim in [128, 192], but "
        f"got {size}"
    )


def _missing_topk(layer: MLALayer) -> str | None:
    if layer.index_topk is not None:
        return None
    return "FlashInfer MLA Sparse requires model with index_topk config"


class FlashAttentionMLASparseFA4(FlashInferMLASparse):
    """FLASH_ATTN_MLA_SPARSE_FA4, for few heads and a plain KV cache.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/flashattn_mla_sparse.py`
    FlashAttnMLASparseFA4Backend.
    """

    name = "FLASH_ATTN_MLA_SPARSE_FA4"
    change = _CONSIDERS_FLASH_ATTENTION_4
    dtypes = ("bfloat16",)
    kv_cache_dtypes = ("auto", "bfloat16")
    head_sizes = (576,)
    block_sizes = _PAGES_OF_64
    rows = 64

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why it refuses a number of selected tokens, latent sizes or heads."""
        layer = config.context.latent
        reason = None if layer is None else _fa4_reason(layer, config.context)
        if reason is not None:
            return reason
        return FlashInferMLASparse.combination_reason(self, config)


def _fa4_reason(layer: MLALayer, context: CacheContext) -> str | None:
    if layer.index_topk is None or layer.index_topk % 128:
        return f"FA4 sparse MLA requires index_topk % 128 == 0, got {layer.index_topk}"
    dims = (layer.kv_lora_rank, layer.qk_rope_head_dim)
    if dims != _DEEPSEEK_LATENT:
        return (
            "FA4 sparse MLA requires (kv_lora_rank, qk_rope_head_dim) == (512, 64), "
            f"got {dims}"
        )
    dcp = context.layout.decode_context_parallel_size
    heads = layer.num_heads // context.layout.tensor_parallel_size
    counts = (8, 16, 32, 64) if dcp > 1 else (8, 16, 32, 64, 128)
    if heads * dcp in counts:
        return None
    return (
        f"FA4 sparse MLA requires {counts} gathered query heads, got "
        f"num_heads={heads} * dcp_size={dcp}"
    )


class FlashInferMLASparseSM90(SparseBackend):
    """FLASHINFER_MLA_SPARSE_SM90.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/flashinfer_mla_sparse_sm90.py`.
    """

    name = "FLASHINFER_MLA_SPARSE_SM90"
    change = _CONSIDERS_FLASHINFER_ON_HOPPER
    dtypes = ("bfloat16",)
    kv_cache_dtypes = ("auto", "bfloat16", *E4M3)
    head_sizes = (512, 576)
    majors = (HOPPER.major,)

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why it refuses: other sizes than DeepSeek's."""
        if not config.use_sparse:
            return "FLASHINFER_MLA_SPARSE_SM90 requires sparse MLA"
        layer = config.context.latent
        if layer is not None and layer.kv_lora_rank != _DEEPSEEK_LATENT[0]:
            return "FLASHINFER_MLA_SPARSE_SM90 requires kv_lora_rank=512"
        if layer is not None and layer.qk_rope_head_dim not in (0, 64):
            return "FLASHINFER_MLA_SPARSE_SM90 requires qk_rope_head_dim in (0, 64)"
        return None


class FlashInferMLASparseSM120(SparseBackend):
    """FLASHINFER_MLA_SPARSE_SM120, which supports only the packed layout.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/flashinfer_mla_sparse.py`
    FlashInferMLASparseSM120Backend.
    """

    name = "FLASHINFER_MLA_SPARSE_SM120"
    change = _CONSIDERS_FLASHINFER_ON_RTX
    dtypes = ("bfloat16",)
    kv_cache_dtypes = ("auto", *E4M3, "fp8_ds_mla")
    head_sizes = (512, 576)
    rows = 64
    majors = (WORKSTATION_BLACKWELL.major,)
    required_topk: ClassVar[int] = 2048

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why it refuses a dtype or a number of selected tokens."""
        if config.dtype != "bfloat16":
            return "dtype not supported"
        if config.kv_cache_dtype not in self.kv_cache_dtypes:
            return "kv_cache_dtype not supported"
        layer = config.context.latent
        topk = None if layer is None else layer.index_topk
        if topk is None:
            return "FLASHINFER_MLA_SPARSE_SM120 requires a model with index_topk config"
        if topk != self.required_topk:
            return f"FLASHINFER_MLA_SPARSE_SM120 requires index_topk=2048; got {topk}"
        return None


class DeepseekV32Indexer(AttentionBackend):
    """DEEPSEEK_V32_INDEXER, for the indexer's own cache.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/indexer.py`
    DeepseekV32IndexerBackend.
    """

    name = "DEEPSEEK_V32_INDEXER"
    head_sizes = (32, 64, 128)
    block_sizes = (64,)
