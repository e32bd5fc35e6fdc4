"""KV cache specs, one class per kind, under vLLM's names.

Source: vLLM 0.33.0 `v1/kv_cache_interface.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FullAttentionSpec:
    """Layers that keep K and V for every token of a request.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` FullAttentionSpec.
    """

    block_size: int
    """Tokens in one block."""
    num_kv_heads: int
    """On this rank, after tensor parallel."""
    head_size: int
    element_bytes: int

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block of one layer: K and V x tokens x heads x head."""
        return (
            2
            * self.block_size
            * self.num_kv_heads
            * self.head_size
            * self.element_bytes
        )

    def max_memory_usage_bytes(
        self, max_model_len: int, decode_context_parallel_size: int = 1
    ) -> int:
        """Bytes one layer needs for one request of `max_model_len`, in whole blocks."""
        tokens = -(-max_model_len // decode_context_parallel_size)
        return -(-tokens // self.block_size) * self.page_size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformTypeKVCacheSpecs:
    """Full-attention layers of different sizes in one group: their pages add up.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` UniformTypeKVCacheSpecs.
    """

    specs: tuple[FullAttentionSpec, ...]
    """One per layer."""

    @property
    def block_size(self) -> int:
        """Tokens in one block, alike in all layers."""
        return self.specs[0].block_size

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block of all layers."""
        return sum(spec.page_size_bytes for spec in self.specs)

    def max_memory_usage_bytes(
        self, max_model_len: int, decode_context_parallel_size: int = 1
    ) -> int:
        """Bytes all layers need for one request, in whole blocks."""
        tokens = -(-max_model_len // decode_context_parallel_size)
        return -(-tokens // self.block_size) * self.page_size_bytes


KVCacheSpec = FullAttentionSpec | UniformTypeKVCacheSpecs
