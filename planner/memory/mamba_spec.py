"""The KV cache spec of layers that keep states of a fixed size.

Source: vLLM 0.33.0 `v1/kv_cache_interface.py` MambaSpec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from planner.memory.kv_spec import KVCacheSpec, Request

ALIGN, NONE = "align", "none"
"""vLLM's mamba_cache_mode: states at the ends of blocks are kept for other requests, or
each request has one state and no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaSpec(KVCacheSpec):
    """Layers that keep the same whatever the length of a request."""

    mamba_type: str
    """Which kind of layer."""
    state_bytes: tuple[int, ...]
    """Of each state of one layer on one rank."""
    mamba_cache_mode: str = NONE
    num_speculative_blocks: int = 0
    """One for each token guessed ahead."""
    num_prefill_checkpoint_blocks: int = 0
    """Blocks beside for the states that a kernel saves on its way."""
    page_size_padded_bytes: int | None = None

    @property
    def page_size_bytes(self) -> int:
        """Bytes of the states of one layer, padded to the pages of its neighbours."""
        if self.page_size_padded_bytes is not None:
            return self.page_size_padded_bytes
        return sum(self.state_bytes)

    def blocks(self, request: Request) -> int:  # noqa: ARG002
        """Blocks one request takes, however long it is.

        One state and one for each token guessed; with prefix caching the one before it,
        and those that a kernel saves.
        """
        if self.mamba_cache_mode == ALIGN:
            more = self.num_speculative_blocks + self.num_prefill_checkpoint_blocks
            return 2 + more
        return 1 + self.num_speculative_blocks

    @property
    def is_state(self) -> bool:
        """Whether a request needs a fixed number of blocks: it does."""
        return True

    def is_uniform_with(self, specs: Sequence[KVCacheSpec]) -> bool:
        """Whether all specs are states of the same size, of whatever kind of layer."""
        return all(
            isinstance(spec, MambaSpec)
            and spec.num_speculative_blocks == self.num_speculative_blocks
            and spec.num_prefill_checkpoint_blocks == self.num_prefill_checkpoint_blocks
            and spec.page_size_bytes == self.page_size_bytes
            for spec in specs
        )

    def with_page_size(self, page_size_bytes: int) -> Self:
        """Return the spec padded to that size: a state does not grow with its block."""
        return replace(self, page_size_padded_bytes=page_size_bytes)
