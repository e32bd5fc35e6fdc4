"""Backends for values of another size than keys."""

from __future__ import annotations

from typing import ClassVar

from planner.errors import Refused
from planner.memory.kv_cache.attention_backends import FlashAttention, TritonAttention
from planner.memory.kv_cache.backend import (
    DECODER,
    AttentionSelectorConfig,
    is_quantized,
)


class FlashAttentionDiffKV(FlashAttention):
    """FLASH_ATTN_DIFFKV, for values of another size than keys.

    Source: vLLM 0.33.0 `v1/attention/backends/flash_attn_diffkv.py`.
    """

    name = "FLASH_ATTN_DIFFKV"


class TritonAttentionDiffKV(TritonAttention):
    """TRITON_ATTN_DIFFKV, for values of another size than keys.

    Source: vLLM 0.33.0 `v1/attention/backends/triton_attn_diffkv.py`.
    """

    name = "TRITON_ATTN_DIFFKV"
    kv_cache_dtypes: ClassVar[tuple[str, ...]] = ("auto", "bfloat16", "fp8", "fp8_e4m3")
    attn_types: ClassVar[tuple[str, ...]] = (DECODER,)

    def refuse(self, config: AttentionSelectorConfig) -> None:
        """Refuse FP8 before Ada, and every other quantised KV cache.

        Raises:
            Refused: in vLLM's words.
        """
        TritonAttention.refuse(self, config)
        dtype = config.kv_cache_dtype
        if is_quantized(dtype) and dtype not in self.kv_cache_dtypes:
            raise Refused(
                "TritonAttentionDiffKVBackend supports only fp8/fp8_e4m3 quantized KV "
                f"cache (got kv_cache_dtype={dtype!r})."
            )
