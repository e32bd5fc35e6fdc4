"""Backends that use one kernel for images and another for text.

Source: vLLM 0.33.0 `v1/attention/backends/composite.py`, `triton_flash_attn.py`,
`triton_flashinfer.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from planner.engine.generations import DATACENTER_BLACKWELL, HOPPER
from planner.engine.releases.change import Change
from planner.memory.kv_cache import flash_attention
from planner.memory.kv_cache.attention_backends import (
    FlashAttention,
    FlashInfer,
    TritonAttention,
)
from planner.memory.kv_cache.backend import AttentionBackend, AttentionSelectorConfig
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.flash_attention import V3, V4, Heads
from planner.memory.kv_cache.kv_spec import AttentionSpec, KVCacheSpec, MultipleOf
from planner.memory.kv_cache.layout import KVCacheLayout, supported_layouts

_CONSIDERS_TRITON_FLASH_ATTENTION = Change(
    since=(0, 30),
    what=(
        "vLLM considers TRITON_FLASH_ATTN on Hopper, for models whose images attend in "
        "both directions."
    ),
)
_CONSIDERS_TRITON_FLASHINFER = Change(
    since=(0, 30),
    what=(
        "vLLM considers TRITON_FLASHINFER on B200, for models whose images attend in "
        "both directions."
    ),
)


class _FlashOnHopper(FlashAttention):
    """FlashAttention as a part: only on Hopper, version 3 or 4."""

    def supports_compute_capability(self, capability: tuple[int, int]) -> bool:
        """Whether the GPU is a Hopper."""
        return capability[0] == HOPPER.major

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why it refuses a combination of supported features, or None."""
        reason = FlashAttention.combination_reason(self, config)
        if reason is not None:
            return reason
        heads = Heads(
            size=config.head_size,
            has_sinks=config.has_sink,
            block_size=config.block_size,
        )
        if flash_attention.version(config.context, heads) not in (V3, V4):
            return "causal route requires FlashAttention v3 or v4"
        return None


class _Composite(AttentionBackend):
    """Triton for images and another backend for text, on one KV cache."""

    causal: ClassVar[AttentionBackend]
    general: ClassVar[AttentionBackend] = TritonAttention()
    head_sizes = (256, 512)
    has_sliding_window = True
    major: ClassVar[int | None] = None

    @property
    def _both(self) -> tuple[AttentionBackend, AttentionBackend]:
        return self.general, self.causal

    def kernel_block_sizes(
        self, context: CacheContext, spec: KVCacheSpec | None = None
    ) -> tuple[int | MultipleOf, ...]:
        """Return the block sizes of this backend that both kernels support."""
        general, causal = (b.kernel_block_sizes(context, spec) for b in self._both)
        if self.block_sizes == AttentionBackend.block_sizes:
            # Triton supports any multiple of 16, which does not restrict the other.
            del general
            return causal
        return tuple(
            size
            for size in self.block_sizes
            if isinstance(size, int)
            and all(b.supports_block_size(size, context) for b in self._both)
        )

    def supports_head_size(self, head_size: int, context: CacheContext) -> bool:
        """Whether both support heads of that size."""
        return head_size in self.head_sizes and all(
            b.supports_head_size(head_size, context) for b in self._both
        )

    def supports_compute_capability(self, capability: tuple[int, int]) -> bool:
        """Whether both run on GPUs of that compute capability."""
        return self.major in (None, capability[0]) and all(
            b.supports_compute_capability(capability) for b in self._both
        )

    def supports_dtype(self, dtype: str) -> bool:
        """Whether both support activations of that dtype."""
        return all(b.supports_dtype(dtype) for b in self._both)

    def supports_kv_cache_dtype(self, dtype: str, context: CacheContext) -> bool:
        """Whether both read a KV cache of that dtype."""
        return all(b.supports_kv_cache_dtype(dtype, context) for b in self._both)

    def supports_mm_prefix(self, context: CacheContext) -> bool:
        """Whether the backend for images lets them attend in both directions."""
        return self.general.supports_mm_prefix(context)

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why one of them refuses, or None."""
        text = replace(config, use_mm_prefix=False)
        for backend, part_config in zip(self._both, (config, text), strict=True):
            reason = backend.combination_reason(part_config)
            if reason:
                return f"{backend.name}: {reason}"
        return None

    def refuse(self, config: AttentionSelectorConfig) -> None:
        """Refuse what either of them refuses.

        Raises:
            Refused: in vLLM's words.
        """
        for backend in self._both:
            backend.refuse(config)

    def customize_spec(self, spec: AttentionSpec) -> AttentionSpec:
        """Return the spec as both store it."""
        return self.general.customize_spec(spec)

    def layouts(self, context: CacheContext) -> tuple[KVCacheLayout, ...] | None:
        """Return the layouts that both support."""
        return supported_layouts(b.layouts(context) for b in self._both)


class TritonFlashAttention(_Composite):
    """TRITON_FLASH_ATTN.

    Source: vLLM 0.33.0 `v1/attention/backends/triton_flash_attn.py`.
    """

    name = "TRITON_FLASH_ATTN"
    change = _CONSIDERS_TRITON_FLASH_ATTENTION
    causal = _FlashOnHopper()


class TritonFlashInfer(_Composite):
    """TRITON_FLASHINFER.

    Source: vLLM 0.33.0 `v1/attention/backends/triton_flashinfer.py`.
    """

    name = "TRITON_FLASHINFER"
    change = _CONSIDERS_TRITON_FLASHINFER
    causal = FlashInfer()
    block_sizes = (64,)
    major = DATACENTER_BLACKWELL.major
