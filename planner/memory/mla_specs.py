"""The KV cache spec of multi-head latent attention.

Source: vLLM 0.33.0 `v1/kv_cache_interface.py` MLAAttentionSpec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.memory.kv_spec import CannotMergeError, FullAttentionSpec, KVCacheSpec

SPARSE, INDEXER = "sparse", "indexer"
"""What a cache of sparse attention is for, by vLLM's names."""

DS_MLA_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Bytes per token of the packed layouts: latent vector, rotated key and scales."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MLAAttentionSpec(FullAttentionSpec):
    """Layers that keep one vector per token, for all heads and on every rank.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` MLAAttentionSpec.
    """

    num_kv_heads: int = 1
    head_size_v: int | None = 0
    """Nothing beside the one vector."""
    cache_role: str = SPARSE
    topk_buffer_width: int | None = None
    """Tokens that an indexer chooses; None without one."""
    is_index_group_leader: bool = False
    """Whether the layer chooses tokens itself."""

    def merge(self, specs: Sequence[KVCacheSpec]) -> KVCacheSpec:
        """Return the one spec of layers that are alike in everything.

        Raises:
            CannotMergeError: when they differ.
        """
        if any(spec != self for spec in specs):
            raise CannotMergeError
        return self
