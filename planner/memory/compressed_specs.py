"""KV cache specs of latent attention: one vector per token, compressed or windowed.

Source: vLLM 0.33.0 `v1/kv_cache_interface.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.errors import Refused
from planner.memory.kv_spec import (
    ATTENTION_FIELDS,
    AttentionSpec,
    CannotMergeError,
    FullAttentionSpec,
    KVCacheSpec,
    Request,
)
from planner.memory.window_specs import SlidingWindowSpec


def _padded(spec: AttentionSpec, alignment: int | None) -> None:
    """Round the page up to its alignment.

    A page that fills it already keeps the padding it was given, as in vLLM.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` _apply_alignment_padding.
    """
    if alignment is None:
        return
    page = spec.unpadded_page_size_bytes
    padded = -(-page // alignment) * alignment
    if padded != page:
        object.__setattr__(spec, "page_size_padded_bytes", padded)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedMLASpec(FullAttentionSpec):
    """Layers that keep one vector for every token, or for several tokens together.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` MLAAttentionSpec.
    """

    head_size_v: int | None = 0
    """There is no value beside the vector."""
    cache_dtype: str | None = None
    alignment_bytes: int | None = None
    """Of which a page is a multiple; None: any size."""
    model_version: str | None = None

    @property
    def kind(self) -> str:
        """Return vLLM's name of the spec's class."""
        return "MLAAttentionSpec"

    def __post_init__(self) -> None:
        """Pad the page."""
        _padded(self, self.alignment_bytes)

    def merge(self, specs: Sequence[KVCacheSpec]) -> KVCacheSpec:
        """Return one spec for layers alike.

        Raises:
            CannotMergeError: when they differ.
        """
        names = (*ATTENTION_FIELDS, "cache_dtype", "model_version")
        for spec in specs:
            if not isinstance(spec, CompressedMLASpec):
                raise CannotMergeError
            if any(getattr(spec, name) != getattr(self, name) for name in names):
                raise CannotMergeError
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowMLASpec(SlidingWindowSpec):
    """Layers that keep one vector for each of the last tokens.

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
        """Return one spec for layers of the same window; vLLM asks no more.

        Raises:
            CannotMergeError: when they differ.
        """
        names = (
            "block_stride_alignment",
            "dcp_sharded",
            "tokens_per_state",
            "sliding_window",
            "cache_dtype",
            "model_version",
        )
        for spec in specs:
            if not isinstance(spec, SlidingWindowMLASpec):
                raise CannotMergeError
            if any(getattr(spec, name) != getattr(self, name) for name in names):
                raise CannotMergeError
        return self

    def is_uniform_with(self, specs: Sequence[KVCacheSpec]) -> bool:
        """Whether all specs keep the same window of vectors."""
        return all(
            isinstance(spec, SlidingWindowMLASpec)
            and spec.sliding_window == self.sliding_window
            for spec in specs
        )

    def promoted(self, block_size: int | None) -> KVCacheSpec:  # noqa: ARG002
        """Refuse to keep all tokens of the layer, where vLLM stumbles.

        Raises:
            Refused: in Python's words.
        """
        raise Refused(
            "TypeError: MLAAttentionSpec.__init__() got an unexpected keyword argument "
            "'bounded_replay'"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CircularBufferSpec(AttentionSpec):
    """Layers that keep the tokens of a group until it is pooled: one block each.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` CircularBufferSpec.
    """

    def blocks(self, request: Request) -> int:  # noqa: ARG002
        """Blocks one request takes, however long it is."""
        return 1

    def is_uniform_with(self, specs: Sequence[KVCacheSpec]) -> bool:
        """Whether all specs are such buffers."""
        return all(isinstance(spec, CircularBufferSpec) for spec in specs)
