"""The base of KV cache specs, and the specs of attention.

There is one class per kind, under vLLM's names. A spec determines how many bytes one
block of one layer takes, how many blocks one request needs, and with which other specs
it can share a group. Other kinds are in `specs_of_latent` and `specs_of_states`.

Source: vLLM 0.33.0 `v1/kv_cache_interface.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field, fields, replace
from math import gcd
from typing import TYPE_CHECKING, ClassVar, Self

from planner.errors import Refused
from planner.values import frozen

if TYPE_CHECKING:
    from fractions import Fraction


class CannotMergeError(Exception):
    """Raised for specs that cannot be one group; vLLM then tries something else."""


@frozen
class MultipleOf:
    """Any multiple of a block size.

    Source: vLLM 0.33.0 `v1/attention/backend.py` MultipleOf.
    """

    base: int


@frozen
class Request:
    """The request that must fit in the KV cache."""

    max_model_len: int
    """Tokens of the longest request."""
    max_in_flight_tokens: int = 0
    """Tokens scheduled but unfinished: concurrent batches x max_num_batched_tokens."""
    max_num_encoder_input_tokens: int = 0
    """Tokens of an encoder's output, for decoders that attend to it."""
    decode_context_parallel_size: int = 1

    @property
    def tokens_per_rank(self) -> int:
        """Tokens whose K and V one rank stores."""
        return -(-self.max_model_len // self.decode_context_parallel_size)

    def of_length(self, max_model_len: int) -> Request:
        """Return the same request of another length."""
        # Faster than replace(): a search over lengths builds twenty of them.
        return Request(
            max_model_len=max_model_len,
            max_in_flight_tokens=self.max_in_flight_tokens,
            max_num_encoder_input_tokens=self.max_num_encoder_input_tokens,
            decode_context_parallel_size=self.decode_context_parallel_size,
        )


@frozen
class KVCacheSpec(ABC):
    """How one layer stores what it needs between steps.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` KVCacheSpec.
    """

    same_slots: ClassVar[tuple[str, ...]] = ()
    """What specs of its class have in common that need the same token slots."""
    is_state: ClassVar[bool] = False
    """Whether a request needs a fixed number of blocks, whatever its length."""
    is_window: ClassVar[bool] = False
    """Whether it stores a sliding window."""

    block_size: int
    """Tokens in one block."""
    dcp_sharded: bool = False
    """Whether decode context parallelism shards the tokens over ranks."""
    block_stride_alignment: int | MultipleOf | None = None
    """Bytes of which the distance between blocks is a multiple, or the largest block
    that the kernel processes as a whole."""

    @property
    def kind(self) -> str:
        """Return vLLM's name of the spec's class."""
        return type(self).__name__

    @property
    @abstractmethod
    def page_size_bytes(self) -> int:
        """Bytes of one block of one layer."""

    @abstractmethod
    def blocks(self, request: Request) -> int:
        """Most blocks that one request takes."""

    @property
    def stride_alignment_bytes(self) -> int:
        """Bytes of which the distance between blocks must be a multiple.

        Source: vLLM 0.33.0 `v1/kv_cache_interface.py` get_block_stride_alignment.
        """
        alignment = self.block_stride_alignment
        if not isinstance(alignment, MultipleOf):
            return alignment or 1
        kernel_block = gcd(alignment.base, self.block_size)
        if kernel_block == self.block_size:
            return 1
        return replace(self, block_size=kernel_block).page_size_bytes

    @property
    def block_stride_bytes(self) -> int:
        """Bytes from block to block where each layer has its own region."""
        step = self.stride_alignment_bytes
        return -(-self.page_size_bytes // step) * step

    def merge(self, specs: Sequence[KVCacheSpec]) -> KVCacheSpec:
        """Return the one spec that represents all of them.

        Raises:
            CannotMergeError: when they cannot be one group.
            Refused: where vLLM stops.
        """
        if any(spec is not self and spec != self for spec in specs):
            raise CannotMergeError
        return self

    def is_uniform_with(self, specs: Sequence[KVCacheSpec]) -> bool:
        """Whether all specs need the same token slots as this one, of any size."""
        return self.is_alike(specs, self.same_slots)

    def is_alike(self, specs: Sequence[KVCacheSpec], names: Sequence[str]) -> bool:
        """Whether all specs are of this class, with the same values of these names."""
        return all(
            isinstance(spec, type(self))
            and all(getattr(spec, name) == getattr(self, name) for name in names)
            for spec in specs
        )

    def promoted(self, block_size: int | None) -> KVCacheSpec:
        """Return the spec that stores every token instead of a window, or itself.

        `block_size` is that of the full-attention layers where they have one size.
        """
        return self

    def with_page_size(self, page_size_bytes: int) -> Self | None:
        """Return the spec with its page enlarged to that size; None if impossible.

        Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py`
        unify_kv_cache_spec_page_size.
        """
        ratio, rest = divmod(page_size_bytes, self.page_size_bytes)
        return None if rest else replace(self, block_size=self.block_size * ratio)


@frozen
class AttentionSpec(KVCacheSpec):
    """Keys and values per head and token.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` AttentionSpec.
    """

    num_kv_heads: int
    """KV heads on this rank."""
    head_size: int
    element_bytes: int
    head_size_v: int | None = None
    """Head size of the values; None: that of the keys."""
    kv_quant_mode: str = "none"
    """How values are quantised, by the name of the KV cache dtype."""
    dcp_sharded: bool = True
    page_size_padded_bytes: int | None = None
    num_head_slots: int | None = None
    """Head slots of a quantised page, where it is not the number of KV heads."""
    state_content_bytes: int | None = None
    """Bytes per head and token of quantised keys and values; None: plain ones."""
    tokens_per_state: int | Fraction = 1
    """Tokens stored as one: more than 1 compresses, a fraction stores several each."""

    @property
    def state_content_size_bytes(self) -> int:
        """Bytes per head and token: key and value."""
        if self.state_content_bytes is not None:
            return self.state_content_bytes
        size_v = self.head_size if self.head_size_v is None else self.head_size_v
        return (self.head_size + size_v) * self.element_bytes

    @property
    def unpadded_page_size_bytes(self) -> int:
        """Bytes of one block before padding: heads x tokens x (key + value)."""
        heads = self.num_head_slots or self.num_kv_heads
        states = self.block_size // self.tokens_per_state
        return int(heads * states * self.state_content_size_bytes)

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block of one layer."""
        if self.page_size_padded_bytes is not None:
            return self.page_size_padded_bytes
        return self.unpadded_page_size_bytes

    def with_page_size(self, page_size_bytes: int) -> Self | None:
        """Return the spec with larger blocks, or padded where these do not fit."""
        if page_size_bytes % self.page_size_bytes == 0:
            return KVCacheSpec.with_page_size(self, page_size_bytes)
        return replace(self, page_size_padded_bytes=page_size_bytes)

    def promoted_page_bytes(self, block_size: int) -> int | None:
        """Padded page of the spec with other blocks; None without padding."""
        if self.page_size_padded_bytes is None:
            return None
        plain = self.unpadded_page_size_bytes * block_size // self.block_size
        return max(self.page_size_padded_bytes, plain)


ATTENTION_FIELDS = tuple(field.name for field in fields(AttentionSpec))


@frozen
class FullAttentionSpec(AttentionSpec):
    """Layers that store K and V for every token of a request.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` FullAttentionSpec.
    """

    sliding_window: int | None = None
    """Window of a layer that attends to a window but is stored in full."""
    attention_chunk_size: int | None = None

    def blocks(self, request: Request) -> int:
        """Blocks of one request: for all its tokens."""
        tokens = request.tokens_per_rank if self.dcp_sharded else request.max_model_len
        return -(-tokens // self.block_size)

    def merge(self, specs: Sequence[KVCacheSpec]) -> KVCacheSpec:
        """Return one spec for layers that differ at most in having a window or chunks.

        Raises:
            CannotMergeError: when sizes differ.
            Refused: for windows of several sizes.
        """
        full = [spec for spec in specs if isinstance(spec, FullAttentionSpec)]
        if len(full) < len(specs):
            raise CannotMergeError
        window = _one_size({spec.sliding_window for spec in full})
        chunk = _one_size({spec.attention_chunk_size for spec in full})
        for spec in full:
            if spec is not self and any(
                getattr(spec, f) != getattr(self, f) for f in ATTENTION_FIELDS
            ):
                raise CannotMergeError
        if window is not None and chunk is not None:
            raise CannotMergeError
        return replace(self, sliding_window=window, attention_chunk_size=chunk)

    def is_uniform_with(self, specs: Sequence[KVCacheSpec]) -> bool:
        """Whether all specs store every token."""
        return all(isinstance(spec, FullAttentionSpec) for spec in specs)


def _one_size(sizes: set[int | None]) -> int | None:
    """Return the one window size among them.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` merge_window_sizes.
    """
    given = sorted(size for size in sizes if size is not None)
    if len(given) > 1:
        raise Refused(
            "All attention layers in the same KV cache group must have the same "
            "window size."
        )
    return given[0] if given else None


@frozen
class UniformTypeKVCacheSpecs(KVCacheSpec):
    """Layers of one kind but different sizes in one group: their pages add up.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` UniformTypeKVCacheSpecs.
    """

    specs: tuple[KVCacheSpec, ...]
    """One spec per layer."""
    distinct_specs: tuple[KVCacheSpec, ...] = field(compare=False)
    """Each distinct object once; equal layers share one object."""

    @classmethod
    def of(cls, specs: Sequence[KVCacheSpec]) -> UniformTypeKVCacheSpecs:
        """Return the group's spec for these layers."""
        first = specs[0]
        return cls(
            block_size=first.block_size,
            dcp_sharded=first.dcp_sharded,
            specs=tuple(specs),
            distinct_specs=tuple({id(spec): spec for spec in specs}.values()),
        )

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block of all layers."""
        return sum(spec.page_size_bytes for spec in self.specs)

    def blocks(self, request: Request) -> int:
        """Blocks of one request: the maximum over the layers."""
        return max(spec.blocks(request) for spec in self.distinct_specs)


def is_uniform_type(specs: Sequence[KVCacheSpec]) -> bool:
    """Whether all layers need the same token slots, of whatever size.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` UniformTypeKVCacheSpecs.
    """
    if len({(spec.block_size, spec.dcp_sharded) for spec in specs}) > 1:
        return False
    return specs[0].is_uniform_with(specs)


def is_uniform(specs: Sequence[KVCacheSpec]) -> bool:
    """Whether one spec can represent all layers.

    Raises:
        Refused: for windows of several sizes, all stored in full.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` is_kv_cache_spec_uniform.
    """
    try:
        specs[0].merge(specs)
    except CannotMergeError:
        return False
    return True
