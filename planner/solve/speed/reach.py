"""Which earlier tokens a layer attends to, and the bytes and operations they take."""

from __future__ import annotations

from collections import Counter, defaultdict

from planner.memory.kv_cache.kernels import Kernels
from planner.memory.kv_cache.kv_spec import AttentionSpec, KVCacheSpec
from planner.memory.kv_cache.specs_of_latent import CircularBufferSpec
from planner.memory.kv_cache.specs_of_states import (
    CrossAttentionSpec,
    MambaSpec,
    SlidingWindowSpec,
)
from planner.models.caches import (
    AttentionLayer,
    BlockSparseAttentionLayer,
    CacheLayer,
    CompressedMLALayer,
    MLALayer,
)
from planner.values import frozen

_READ_AND_WRITTEN = 2
"""A state is read and written with every token."""


@frozen(kw_only=False)
class Reach:
    """Which earlier tokens a layer attends to.

    >>> Reach(limit=4).at(10), Reach().at(10), Reach(limit=4, is_chunk=True).at(10)
    (4, 10, 2)
    >>> Reach(limit=4).total(6), Reach().total(3)
    (18, 6)
    """

    limit: int | None = None
    """Number of most recent tokens; None: all."""
    is_chunk: bool = False
    """Whether only tokens since the last multiple of the limit count (chunks)."""

    def at(self, tokens: int) -> int:
        """Return the tokens attended to at a context of `tokens`."""
        if self.limit is None or tokens <= self.limit:
            return tokens
        return (tokens - 1) % self.limit + 1 if self.is_chunk else self.limit

    def total(self, tokens: int) -> int:
        """Return the sum of `at` from 1 to `tokens`."""
        limit = self.limit
        if limit is None or tokens <= limit:
            return tokens * (tokens + 1) // 2
        whole = limit * (limit + 1) // 2
        if self.is_chunk:
            chunks, rest = divmod(tokens, limit)
            return chunks * whole + rest * (rest + 1) // 2
        return whole + (tokens - limit) * limit


@frozen(kw_only=False)
class Attention:
    """Reads and operations of layers with the same reach, on one rank."""

    reach: Reach
    token_bytes: float = 0.0
    """Bytes read for each token attended to."""
    state_bytes: int = 0
    """Bytes read and written in a step at any length."""
    decode_flops: float = 0.0
    """Operations for each token attended to."""
    prefill_flops: float = 0.0


def attention_of(
    kernels: Kernels, layers: range, *, ranks: int, context_ranks: int
) -> tuple[Attention, ...]:
    """Return the reads and operations of a stage's layers, summed by reach."""
    sums: dict[Reach, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    pairs = _paired(kernels, layers)
    counts = Counter((id(cache), id(spec)) for cache, spec in pairs)
    distinct = {(id(cache), id(spec)): (cache, spec) for cache, spec in pairs}
    for key, (cache, spec) in distinct.items():
        share = context_ranks if spec.dcp_sharded else 1
        decode, prefill = _flops(cache, ranks)
        figures = (_token_bytes(cache, spec), _state_bytes(spec), decode, prefill)
        summed = sums[_reach(cache, spec)]
        for at, figure in enumerate(figures):
            summed[at] += counts[key] * figure / share
    return tuple(
        Attention(reach, found[0], int(found[1]), found[2], found[3])
        for reach, found in sums.items()
    )


def _paired(
    kernels: Kernels, layers: range
) -> list[tuple[CacheLayer | None, KVCacheSpec]]:
    """Return each KV cache spec of the layers with its cache."""
    caches: dict[int, list[CacheLayer]] = defaultdict(list)
    specs: dict[int, list[KVCacheSpec]] = defaultdict(list)
    for held in kernels.layers.caches:
        caches[held.layer].append(held.cache)
    for layer, spec in kernels.specs:
        specs[layer].append(spec)
    found: list[tuple[CacheLayer | None, KVCacheSpec]] = []
    for layer in layers:
        is_whole = len(caches[layer]) == len(specs[layer])
        kept = caches[layer] if is_whole else [None] * len(specs[layer])
        found += zip(kept, specs[layer], strict=True)
    return found


def _reach(cache: CacheLayer | None, spec: KVCacheSpec) -> Reach:
    """Return the tokens that a layer reads, as far as that is known."""
    if isinstance(cache, AttentionLayer):
        if cache.attention_chunk_size is not None:
            return Reach(cache.attention_chunk_size, is_chunk=True)
        return Reach(cache.sliding_window)
    if isinstance(cache, MLALayer):
        return Reach(cache.index_topk)
    if isinstance(cache, BlockSparseAttentionLayer):
        return Reach(cache.topk_blocks * spec.block_size)
    if isinstance(spec, SlidingWindowSpec):
        return Reach(spec.sliding_window)
    return Reach()


def _token_bytes(cache: CacheLayer | None, spec: KVCacheSpec) -> float:
    """Return the bytes read for each token attended to.

    Nothing is counted where it is not known which tokens are read: DeepSeek-V4's
    compressed caches, buffers, an encoder's output.
    """
    is_unknown = isinstance(cache, CompressedMLALayer) or isinstance(
        spec, CircularBufferSpec | CrossAttentionSpec
    )
    if is_unknown or not isinstance(spec, AttentionSpec):
        return 0.0
    return spec.unpadded_page_size_bytes / spec.block_size


def _state_bytes(spec: KVCacheSpec) -> int:
    if isinstance(spec, MambaSpec):
        return _READ_AND_WRITTEN * sum(spec.state_bytes)
    return 0


def _flops(cache: CacheLayer | None, ranks: int) -> tuple[float, float]:
    """Return the operations per token attended to, in decode and in prefill.

    A dot product of n elements takes 2n operations: queries by keys, then weights by
    values. Latent attention decodes on the compressed vector.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py`, the module's docstring.
    """
    if isinstance(cache, AttentionLayer):
        size_v = cache.head_size if cache.head_size_v is None else cache.head_size_v
        flops = 2 * cache.num_heads * (cache.head_size + size_v) / ranks
        return flops, flops
    if isinstance(cache, MLALayer):
        latent = 2 * cache.kv_lora_rank + cache.qk_rope_head_dim
        plain = cache.qk_nope_head_dim + cache.qk_rope_head_dim + cache.v_head_dim
        heads = cache.num_heads / ranks
        return 2 * heads * latent, 2 * heads * plain
    return 0.0, 0.0
