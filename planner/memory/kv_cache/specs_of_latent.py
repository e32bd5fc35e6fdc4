"""KV cache specs of latent attention: one vector per token, compressed or windowed.

Source: vLLM 0.33.0 `v1/kv_cache_interface.py` MLAAttentionSpec and others.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.errors import Refused
from planner.memory.kv_cache.kv_spec import (
    ATTENTION_FIELDS,
    AttentionSpec,
    CannotMergeError,
    FullAttentionSpec,
    KVCacheSpec,
    Request,
)
from planner.memory.kv_cache.specs_of_states import SlidingWindowSpec
from planner.values import frozen

SPARSE, INDEXER = "sparse", "indexer"
"""The roles of a cache of sparse attention, under vLLM's names."""
DS_MLA_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Bytes per token of the packed layouts: latent vector, rotated key and scales."""


@frozen
class MLAAttentionSpec(FullAttentionSpec):
    """Layers that store one vector per token, for all heads and on every rank.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` MLAAttentionSpec.
    """

    num_kv_heads: int = 1
    head_size_v: int | None = 0
    """There is nothing beside the one vector."""
    cache_role: str = SPARSE
    topk_buffer_width: int | None = None
    """Tokens that an indexer selects; None without one."""
    is_index_group_leader: bool = False
    """Whether the layer selects tokens itself."""

    def merge(self, specs: Sequence[KVCacheSpec]) -> KVCacheSpec:
        """Return the one spec of layers that are equal.

        Raises:
            CannotMergeError: when they differ.
        """
        if any(spec != self for spec in specs):
            raise CannotMergeError
        return self


@frozen
class CompressedMLASpec(FullAttentionSpec):
    """Layers that store one vector for every token, or for several tokens together.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` MLAAttentionSpec.
    """

    head_size_v: int | None = 0
    """There is no value beside the vector."""
    cache_dtype: str | None = None
    alignment_bytes: int | None = None
    """Bytes of which a page is a multiple; None: any size."""
    model_version: str | None = None

    @property
    def kind(self) -> str:
        """Return vLLM's name of the spec's class."""
        return "MLAAttentionSpec"

    def __post_init__(self) -> None:
        """Pad the page."""
        _padded(self, self.alignment_bytes)

    def merge(self, specs: Sequence[KVCacheSpec]) -> KVCacheSpec:
        """Return one spec for equal layers.

        Raises:
            CannotMergeError: when they differ.
        """
        names = (*ATTENTION_FIELDS, "cache_dtype", "model_version")
        if not self.is_alike(specs, names):
            raise CannotMergeError
        return self


@frozen
class SlidingWindowMLASpec(SlidingWindowSpec):
    """Layers that store one vector for each of the most recent tokens.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` SlidingWindowMLASpec.
    """

    head_size_v: int | None = 0
    cache_dtype: str | None = None
    alignment_bytes: int | None = None
    model_version: str | None = None

    def __post_init__(self) -> None:
        """Pad the page."""
        _padded(self, self.alignment_bytes)

    def merge(self, specs: Sequence[KVCacheSpec]) -> KVCacheSpec:
        """Return one spec for layers of the same window; vLLM checks nothing else.

        Raises:
            CannotMergeError: when they differ.
        """
        names = (
            *("block_stride_alignment", "dcp_sharded", "tokens_per_state"),
            *("sliding_window", "cache_dtype", "model_version"),
        )
        if not self.is_alike(specs, names):
            raise CannotMergeError
        return self

    def promoted(self, block_size: int | None) -> KVCacheSpec:
        """Refuse to store all tokens of the layer, where vLLM raises an exception.

        Raises:
            Refused: with Python's message.
        """
        raise Refused(
            "TypeError: MLAAttentionSpec.__init__() got an unexpected keyword argument "
            "'bounded_replay'"
        )


@frozen
class CircularBufferSpec(AttentionSpec):
    """Layers that store the tokens of a pool until it is complete: one block each.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` CircularBufferSpec.
    """

    def blocks(self, request: Request) -> int:
        """Blocks of one request, whatever its length."""
        return 1


def _padded(spec: AttentionSpec, alignment: int | None) -> None:
    """Round the page up to its alignment.

    A page that is already aligned keeps its given padding, as in vLLM.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` _apply_alignment_padding.
    """
    if alignment is None:
        return
    page = spec.unpadded_page_size_bytes
    padded = -(-page // alignment) * alignment
    if padded != page:
        object.__setattr__(spec, "page_size_padded_bytes", padded)
