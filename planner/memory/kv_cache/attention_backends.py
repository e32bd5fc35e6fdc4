"""The backends of attention with keys and values per head.

Source: vLLM 0.33.0 `v1/attention/backends/flash_attn.py`, `flashinfer.py`,
`triton_attn.py`, `flex_attention.py`, `turboquant_attn.py`, `composite.py`,
`flash_attn_diffkv.py`, `triton_attn_diffkv.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from planner.engine.generations import AMPERE, DATACENTER_BLACKWELL, HOPPER
from planner.engine.releases.change import Change
from planner.errors import Refused
from planner.memory.kv_cache import flash_attention, layout
from planner.memory.kv_cache.backend import (
    DECODER,
    ENCODER_DECODER,
    ENCODER_ONLY,
    PLAIN,
    AttentionBackend,
    AttentionSelectorConfig,
    is_quantized,
    refuse_on_older,
)
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.flash_attention import V3, V4, Heads
from planner.memory.kv_cache.kv_spec import AttentionSpec, KVCacheSpec, MultipleOf
from planner.memory.kv_cache.layout import KVCacheLayout

_E4M3 = ("fp8", "fp8_e4m3")
_ALL_TYPES = (DECODER, ENCODER_ONLY, ENCODER_DECODER)
_ANY_16 = (MultipleOf(base=16),)
_HALF_SIZES = (16, 32, 64)
_LARGE_SIZES = (128, 256, 512, 1024)
_SMALLEST_TRITON_HEAD = 32
_FP8_PAGE = 64
"""Tokens per page of FlashAttention 4's kernel for FP8 and heads of 512."""
_NVFP4_WITHOUT_OWN_KERNEL = (8, 9, 12)
_HAS_NVIDIA_KERNELS = (10, 12)
_HEAD_256_PAGES = Change(
    since=(0, 29),
    what="FlashAttention 4 has pages of 128 tokens for heads of 256.",
    source="vLLM 0.29.0 `v1/attention/backends/flash_attn.py`",
)
_FP8_PAGES = Change(
    since=(0, 31),
    what="FlashAttention 4 has pages of 64 tokens for FP8 and heads of 512 on Hopper.",
    source="vLLM 0.31.0 `v1/attention/backends/flash_attn.py`",
)


class FlashAttention(AttentionBackend):
    """FLASH_ATTN.

    Source: vLLM 0.33.0 `v1/attention/backends/flash_attn.py` FlashAttentionBackend.
    """

    name = "FLASH_ATTN"
    kv_cache_dtypes = (*PLAIN, *_E4M3)
    attn_types = _ALL_TYPES
    block_sizes = _ANY_16
    has_sliding_window = True
    has_dcp = True

    def supports_head_size(self, head_size: int, context: CacheContext) -> bool:
        """Whether it supports heads of that size: multiples of 8."""
        largest = 512 if flash_attention.has_v4(context) else 256
        return head_size % 8 == 0 and head_size <= largest

    def supports_kv_cache_dtype(self, dtype: str, context: CacheContext) -> bool:
        """Whether it reads a KV cache of that dtype."""
        if dtype not in self.kv_cache_dtypes:
            return False
        return not is_quantized(dtype) or flash_attention.reads_fp8(context)

    def kernel_block_sizes(
        self, context: CacheContext, spec: KVCacheSpec | None = None
    ) -> tuple[int | MultipleOf, ...]:
        """Return the block sizes that its kernels support."""
        fixed = self._fixed_block_size(context, spec)
        return self.block_sizes if fixed is None else (fixed,)

    def _fixed_block_size(
        self, context: CacheContext, spec: KVCacheSpec | None = None
    ) -> int | None:
        """Return the one page size of the kernels for heads of 256 and 512."""
        heads = Heads(size=context.head_size)
        has_fp8 = context.kv_cache_dtype in _E4M3
        if spec is not None:
            if not isinstance(spec, AttentionSpec):
                return None
            heads = Heads(size=spec.head_size, size_v=spec.head_size_v)
            has_fp8 = spec.kv_quant_mode in _E4M3
        is_v4 = flash_attention.version(context, heads) == V4
        is_512 = heads.size == flash_attention.HEAD_512
        release = context.layout.release
        has_pages = release.has(_FP8_PAGES) and context.major == HOPPER.major
        if is_v4 and is_512 and has_pages and has_fp8:
            return _FP8_PAGE
        is_256 = flash_attention.uses_head_256_kernel(context, heads)
        is_paged = is_256 and is_v4 and release.has(_HEAD_256_PAGES)
        return flash_attention.HEAD_256_PAGE if is_paged else None

    def preferred_block_size(self, default: int, context: CacheContext) -> int:
        """Return its block size when the user sets none."""
        fixed = self._fixed_block_size(context)
        return default if fixed is None else max(default, fixed)

    def supports_mm_prefix(self, context: CacheContext) -> bool:
        """Whether FlashAttention 4 runs on the GPU."""
        return flash_attention.has_v4(context)

    def supports_sink(self, context: CacheContext) -> bool:
        """Whether the GPU uses FlashAttention 3 or 4."""
        return flash_attention.version(context) in (V3, V4)

    def supports_compute_capability(self, capability: tuple[int, int]) -> bool:
        """Whether it runs on GPUs of that compute capability."""
        return capability >= AMPERE

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why it refuses a combination of supported features, or None."""
        has_packed = is_quantized(config.kv_cache_dtype)
        heads = Heads(
            size=config.head_size,
            has_sinks=config.has_sink,
            block_size=config.block_size,
        )
        is_v4 = flash_attention.version(config.context, heads) == V4
        if config.has_sink and config.context.gpu.compute_capability < HOPPER:
            return "sink not supported on compute capability < 9.0"
        if config.use_mm_prefix and has_packed and config.context.major == HOPPER.major:
            return "SM90 FP8 KV with mm_prefix requires Triton"
        if has_packed and not self._reads(config, heads):
            return (
                "FP8 KV cache requires FA3 on SM90, FA4 with head_size=512 on SM90, "
                "or FA4 on SM100"
            )
        if config.use_mm_prefix and not is_v4:
            return (
                "mm_prefix (PrefixLM bidirectional attention) requires FlashAttention "
                "v4, which does not resolve for this head_size"
            )
        return None

    def _reads(self, config: AttentionSelectorConfig, heads: Heads) -> bool:
        is_e5m2 = config.kv_cache_dtype == "fp8_e5m2"
        return not is_e5m2 and flash_attention.reads_fp8(config.context, heads)

    def refuse(self, config: AttentionSelectorConfig) -> None:
        """Refuse a quantised KV cache that a backend set by the model cannot read.

        Raises:
            Refused: in vLLM's words.

        Source: vLLM 0.33.0 `v1/attention/backends/flash_attn.py` FlashAttentionImpl.
        """
        heads = Heads(size=config.head_size, has_sinks=config.has_sink)
        is_packed = is_quantized(config.kv_cache_dtype)
        if is_packed and not self._reads(config, heads):
            raise Refused(
                f"FlashAttention does not support {config.kv_cache_dtype} kv-cache on "
                "this device."
            )


_NVFP4_ELSEWHERE = Change(
    since=(0, 32),
    what="An NVFP4 KV cache is read on Ampere, Hopper and consumer Blackwell too.",
    source=(
        "vLLM 0.31.0 and 0.32.0 `v1/attention/backends/flashinfer.py` "
        "FlashInferBackend.supports_kv_cache_dtype"
    ),
)
_TRITON_CHECKS_GPU = Change(
    since=(0, 24),
    what=(
        "TRITON_ATTN refuses an FP8 KV cache on GPUs before compute capability 8.9, "
        "and a bfloat16 one before 8.0."
    ),
    source="vLLM 0.24.0 `v1/attention/backends/triton_attn.py` TritonAttentionImpl",
)


class FlashInfer(AttentionBackend):
    """FLASHINFER.

    Source: vLLM 0.33.0 `v1/attention/backends/flashinfer.py` FlashInferBackend.
    """

    name = "FLASHINFER"
    kv_cache_dtypes = (*PLAIN, *_E4M3, "fp8_e5m2", "nvfp4", "nvfp4_4over6")
    head_sizes = (64, 128, 256, 512)
    has_sliding_window = True
    has_dcp = True

    def kernel_block_sizes(
        self, context: CacheContext, spec: KVCacheSpec | None = None
    ) -> tuple[int | MultipleOf, ...]:
        """Return its block sizes: also large ones for grouped heads on Blackwell."""
        heads, kv_heads = context.num_heads_per_rank, context.num_kv_heads_per_rank
        is_grouped = heads // kv_heads > 1 and heads % kv_heads == 0
        if context.major == DATACENTER_BLACKWELL.major and is_grouped:
            return (*_HALF_SIZES, *_LARGE_SIZES)
        return _HALF_SIZES

    def supports_kv_cache_dtype(self, dtype: str, context: CacheContext) -> bool:
        """Whether it reads a KV cache of that dtype."""
        if not dtype.startswith("nvfp4"):
            return dtype in self.kv_cache_dtypes
        release = context.layout.release
        has_others = release.has(_NVFP4_ELSEWHERE)
        if has_others and context.major in _NVFP4_WITHOUT_OWN_KERNEL:
            return dtype == "nvfp4"
        return (
            context.major == DATACENTER_BLACKWELL.major
            and dtype in self.kv_cache_dtypes
        )

    def supports_sink(self, context: CacheContext) -> bool:
        """Whether NVIDIA's own kernels support the GPU."""
        return (
            context.gpu.compute_capability == HOPPER
            or context.major in _HAS_NVIDIA_KERNELS
        )

    def supports_compute_capability(self, capability: tuple[int, int]) -> bool:
        """Whether it runs on GPUs of that compute capability."""
        return AMPERE <= capability <= (12, 1)

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why it refuses a combination of supported features, or None."""
        if (
            config.kv_cache_dtype.startswith("nvfp4")
            and config.context.major in _NVFP4_WITHOUT_OWN_KERNEL
        ):
            if config.head_size == self.head_sizes[0]:
                return "fa2 prefill misreads an NVFP4 KV cache at head_size 64"
            if config.has_sink:
                return "the sink prefill wrapper cannot read an NVFP4 KV cache"
        return None

    def customize_spec(self, spec: AttentionSpec) -> AttentionSpec:
        """Return the spec with NVFP4 packed in slots for keys and for values."""
        if not spec.kv_quant_mode.startswith("nvfp4"):
            return spec
        return layout.in_nvfp4_slots(spec)

    def layouts(self, context: CacheContext) -> tuple[KVCacheLayout, ...] | None:
        """Return the layouts that NVIDIA's kernels support on Blackwell."""
        if context.major != DATACENTER_BLACKWELL.major:
            return None
        return (KVCacheLayout.LBHNC, KVCacheLayout.BLHNC)


class TritonAttention(AttentionBackend):
    """TRITON_ATTN.

    Source: vLLM 0.33.0 `v1/attention/backends/triton_attn.py` TritonAttentionBackend.
    """

    name = "TRITON_ATTN"
    dtypes = ("float16", "bfloat16", "float32")
    kv_cache_dtypes: ClassVar[tuple[str, ...]] = (
        *PLAIN,
        *_E4M3,
        "fp8_e5m2",
        *layout.PER_TOKEN_HEAD,
    )
    attn_types: ClassVar[tuple[str, ...]] = _ALL_TYPES
    block_sizes = _ANY_16
    has_sliding_window = True
    has_mm_prefix = True
    has_sink = True

    def supports_head_size(self, head_size: int, context: CacheContext) -> bool:
        """Whether it supports heads of that size."""
        return head_size >= _SMALLEST_TRITON_HEAD

    def customize_spec(self, spec: AttentionSpec) -> AttentionSpec:
        """Return the spec with the scales that some dtypes store per head and token."""
        if spec.kv_quant_mode not in layout.PER_TOKEN_HEAD:
            return spec
        content = layout.per_token_head_bytes(spec)
        return replace(spec, state_content_bytes=content)

    def refuse(self, config: AttentionSelectorConfig) -> None:
        """Refuse FP8 before Ada and bfloat16 before Ampere.

        Raises:
            Refused: in vLLM's words.

        Source: vLLM 0.33.0 `v1/attention/backends/triton_attn.py` TritonAttentionImpl.
        """
        if config.context.layout.release.has(_TRITON_CHECKS_GPU):
            refuse_on_older(config, " by the Triton attention backend", "")


class FlexAttention(AttentionBackend):
    """FLEX_ATTENTION.

    Source: vLLM 0.33.0 `v1/attention/backends/flex_attention.py` FlexAttentionBackend.
    """

    name = "FLEX_ATTENTION"
    dtypes = ("float16", "bfloat16", "float32")
    attn_types = (DECODER, ENCODER_ONLY)
    block_sizes = _ANY_16
    has_sliding_window = True
    has_mm_prefix = True
    own_layouts = (KVCacheLayout.LBNHC,)


class TurboQuant(AttentionBackend):
    """TURBOQUANT.

    Source: vLLM 0.33.0 `v1/attention/backends/turboquant_attn.py`
    TurboQuantAttentionBackend.
    """

    name = "TURBOQUANT"
    kv_cache_dtypes = layout.TURBOQUANT
    block_sizes = (16, 32, 64, 128)
    own_layouts = (KVCacheLayout.LBNHC,)

    def customize_spec(self, spec: AttentionSpec) -> AttentionSpec:
        """Return the spec with keys and values packed in one slot per head."""
        if spec.kv_quant_mode not in layout.TURBOQUANT:
            return spec
        content = layout.turboquant_bytes(spec.kv_quant_mode, spec.head_size)
        return replace(spec, state_content_bytes=content)
