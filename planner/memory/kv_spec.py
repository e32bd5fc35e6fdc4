"""KV cache specs, one class per kind, under vLLM's names.

Source: vLLM 0.33.0 `v1/kv_cache_interface.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The one request that the KV cache must hold."""

    max_model_len: int
    """Tokens of the longest request."""
    max_in_flight_tokens: int = 0
    """Tokens scheduled but not settled: concurrent batches x max_num_batched_tokens."""
    decode_context_parallel_size: int = 1

    @property
    def tokens_per_rank(self) -> int:
        """Tokens of which one rank keeps K and V."""
        return -(-self.max_model_len // self.decode_context_parallel_size)


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

    def blocks(self, request: Request) -> int:
        """Blocks one request takes: every token of it."""
        return -(-request.tokens_per_rank // self.block_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowSpec:
    """Layers that keep K and V for the last `sliding_window` tokens.

    While a long prompt is read in steps, the tokens in flight are kept as well, so a
    window of 1,024 tokens may hold many more at start-up's reckoning.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` SlidingWindowSpec.
    """

    block_size: int
    num_kv_heads: int
    head_size: int
    element_bytes: int
    sliding_window: int

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block of one layer, as for full attention."""
        return (
            2
            * self.block_size
            * self.num_kv_heads
            * self.head_size
            * self.element_bytes
        )

    def blocks(self, request: Request) -> int:
        """Blocks one request takes; one more, as a window may begin inside a block."""
        kept = self.sliding_window - 1 + request.max_in_flight_tokens
        return -(-min(kept, request.max_model_len) // self.block_size) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformTypeKVCacheSpecs:
    """Layers of one kind but different sizes in one group: their pages add up.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` UniformTypeKVCacheSpecs.
    """

    specs: tuple[LayerSpec, ...]
    """One per layer."""

    @property
    def block_size(self) -> int:
        """Tokens in one block, alike in all layers."""
        return self.specs[0].block_size

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block of all layers."""
        return sum(spec.page_size_bytes for spec in self.specs)

    def blocks(self, request: Request) -> int:
        """Blocks one request takes: the most any layer does."""
        return max(spec.blocks(request) for spec in self.specs)


LayerSpec = FullAttentionSpec | SlidingWindowSpec
KVCacheSpec = LayerSpec | UniformTypeKVCacheSpecs
