"""KV cache specs of layers with states, some of the tokens, or an encoder's output.

Source: vLLM 0.33.0 `v1/kv_cache_interface.py` MambaSpec and others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from planner.errors import Refused
from planner.memory.kv_cache.kv_spec import (
    ATTENTION_FIELDS,
    AttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    Request,
)
from planner.values import frozen

ALIGN, NONE = "align", "none"
"""Values of vLLM's mamba_cache_mode: states at the ends of blocks are stored for other
requests, or each request has only one state."""


@frozen
class MambaSpec(KVCacheSpec):
    """Layers that store a fixed amount whatever the length of a request."""

    same_slots = (
        *("num_speculative_blocks", "num_prefill_checkpoint_blocks"),
        "page_size_bytes",
    )
    is_state = True

    mamba_type: str
    """The kind of layer."""
    state_bytes: tuple[int, ...]
    """Bytes of each state of one layer on one rank."""
    mamba_cache_mode: str = NONE
    num_speculative_blocks: int = 0
    """One for each draft token."""
    num_prefill_checkpoint_blocks: int = 0
    """Additional blocks for intermediate states that a kernel saves."""
    page_size_padded_bytes: int | None = None

    @property
    def page_size_bytes(self) -> int:
        """Bytes of the states of one layer, padded to the pages of other layers."""
        if self.page_size_padded_bytes is not None:
            return self.page_size_padded_bytes
        return sum(self.state_bytes)

    def blocks(self, request: Request) -> int:
        """Blocks of one request, whatever its length.

        One state and one for each draft token; with prefix caching also the previous
        one, and those that a kernel saves.
        """
        if self.mamba_cache_mode == ALIGN:
            more = self.num_speculative_blocks + self.num_prefill_checkpoint_blocks
            return 2 + more
        return 1 + self.num_speculative_blocks

    def with_page_size(self, page_size_bytes: int) -> Self:
        """Return the spec padded to that size: a state does not grow with its block."""
        return replace(self, page_size_padded_bytes=page_size_bytes)


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


@frozen
class SlidingWindowSpec(AttentionSpec):
    """Layers that store K and V for the last `sliding_window` tokens.

    While a long prompt is prefilled in chunks, the tokens in flight are stored as well,
    so that a window of 1,024 tokens may count as many more in vLLM's check at start-up.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` SlidingWindowSpec.
    """

    same_slots = ("sliding_window",)
    is_window = True

    sliding_window: int

    def blocks(self, request: Request) -> int:
        """Blocks of one request, plus one, as a window may begin inside a block.

        Raises:
            Refused: under decode context parallelism.
        """
        if self.dcp_sharded and request.decode_context_parallel_size > 1:
            raise Refused("DCP not support sliding window.")
        kept = self.sliding_window - 1 + request.max_in_flight_tokens
        return -(-min(kept, request.max_model_len) // self.block_size) + 1

    def promoted(self, block_size: int | None) -> KVCacheSpec:
        """Return the spec of the layer stored as full attention."""
        return kept_in_full(self, block_size, sliding_window=self.sliding_window)


@frozen
class ChunkedLocalAttentionSpec(AttentionSpec):
    """Layers that store K and V of one chunk of tokens (Llama 4).

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` ChunkedLocalAttentionSpec.
    """

    same_slots = ("attention_chunk_size",)

    attention_chunk_size: int

    def blocks(self, request: Request) -> int:
        """Blocks of one request: a chunk and the tokens in flight."""
        kept = self.attention_chunk_size + request.max_in_flight_tokens
        return -(-min(kept, request.max_model_len) // self.block_size)

    def promoted(self, block_size: int | None) -> KVCacheSpec:
        """Return the spec of the layer stored as full attention."""
        chunk = self.attention_chunk_size
        return kept_in_full(self, block_size, attention_chunk_size=chunk)


@frozen
class CrossAttentionSpec(AttentionSpec):
    """Cross-attention layers of a decoder (Whisper).

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` CrossAttentionSpec.
    """

    def blocks(self, request: Request) -> int:
        """Blocks of one request: for the encoder's output, not for its tokens."""
        return -(-request.max_num_encoder_input_tokens // self.block_size)


@frozen
class RSWASpec(FullAttentionSpec):
    """Prompts in full and the last generated tokens, planned as if all were kept.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` RSWASpec.
    """

    rswa_window: int


@frozen
class SinkFullAttentionSpec(FullAttentionSpec):
    """Full attention with learned tokens before every request.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` SinkFullAttentionSpec.
    """

    sink_len: int | None = None
