"""KV cache specs of layers that keep a part of the tokens, or an encoder's output.

Source: vLLM 0.33.0 `v1/kv_cache_interface.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.errors import Refused
from planner.memory.kv_spec import (
    ATTENTION_FIELDS,
    AttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    Request,
)


def kept_in_full(
    spec: AttentionSpec, block_size: int | None, **windows: int
) -> FullAttentionSpec:
    """Return the spec of a layer whose window is not used to save memory.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` _promote_local_kv_cache_specs.
    """
    size = block_size or spec.block_size
    same = {name: getattr(spec, name) for name in ATTENTION_FIELDS}
    padded = spec.promoted_page_bytes(size)
    changes = {"block_size": size, "page_size_padded_bytes": padded, **windows}
    return FullAttentionSpec(**{**same, **changes})


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowSpec(AttentionSpec):
    """Layers that keep K and V for the last `sliding_window` tokens.

    While a long prompt is read in steps, the tokens in flight are kept as well, so a
    window of 1,024 tokens may hold many more at start-up's reckoning.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` SlidingWindowSpec.
    """

    sliding_window: int

    def blocks(self, request: Request) -> int:
        """Blocks one request takes; one more, as a window may begin inside a block.

        Raises:
            Refused: under decode context parallel.
        """
        if self.dcp_sharded and request.decode_context_parallel_size > 1:
            raise Refused("DCP not support sliding window.")
        kept = self.sliding_window - 1 + request.max_in_flight_tokens
        return -(-min(kept, request.max_model_len) // self.block_size) + 1

    def is_uniform_with(self, specs: Sequence[KVCacheSpec]) -> bool:
        """Whether all specs keep the same window."""
        return all(
            isinstance(spec, SlidingWindowSpec)
            and spec.sliding_window == self.sliding_window
            for spec in specs
        )

    @property
    def is_window(self) -> bool:
        """Whether it keeps a sliding window."""
        return True

    def promoted(self, block_size: int | None) -> KVCacheSpec:
        """Return the layer kept as full attention."""
        return kept_in_full(self, block_size, sliding_window=self.sliding_window)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedLocalAttentionSpec(AttentionSpec):
    """Layers that keep K and V of one chunk of tokens (Llama 4).

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` ChunkedLocalAttentionSpec.
    """

    attention_chunk_size: int

    def blocks(self, request: Request) -> int:
        """Blocks one request takes: a chunk and the tokens in flight."""
        kept = self.attention_chunk_size + request.max_in_flight_tokens
        return -(-min(kept, request.max_model_len) // self.block_size)

    def is_uniform_with(self, specs: Sequence[KVCacheSpec]) -> bool:
        """Whether all specs keep chunks of the same size."""
        return all(
            isinstance(spec, ChunkedLocalAttentionSpec)
            and spec.attention_chunk_size == self.attention_chunk_size
            for spec in specs
        )

    def promoted(self, block_size: int | None) -> KVCacheSpec:
        """Return the layer kept as full attention."""
        chunk = self.attention_chunk_size
        return kept_in_full(self, block_size, attention_chunk_size=chunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossAttentionSpec(AttentionSpec):
    """Layers of a decoder that attend to an encoder's output (Whisper).

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` CrossAttentionSpec.
    """

    def blocks(self, request: Request) -> int:
        """Blocks one request takes: the encoder's output, not the request's tokens."""
        return -(-request.max_num_encoder_input_tokens // self.block_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFullAttentionSpec(FullAttentionSpec):
    """Full attention with learned tokens before every request.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` SinkFullAttentionSpec.
    """

    sink_len: int | None = None
