"""All caches of a model: their backends, their common block size, their specs.

Each family of caches is a module with a table `FAMILIES`, which is added to `_tables`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import lcm

from planner.engine.generations import DATACENTER_BLACKWELL, HOPPER
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.releases.shared import CONSIDERS_CUTLASS, CONSIDERS_FLASHINFER
from planner.errors import Refused, UnknownArchitecture
from planner.memory.kv_cache import attention_caches
from planner.memory.kv_cache.backend import AttentionBackend, CacheFamily, CachePlace
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.kv_spec import KVCacheSpec, MultipleOf
from planner.memory.kv_cache.layout import kv_element_bytes
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer, CacheLayer, MLALayer
from planner.values import frozen

_FLASHINFER_NOPE = 128
DEFAULT_BLOCK_SIZE = 16
_SPARSE_BLOCK = 64
_BLOCK_SIZE_BY_BACKEND = Change(
    since=(0, 18),
    what="The attention backend determines the block size, not the GPU.",
    source="vLLM 0.18.0 `platforms/interface.py` update_block_size_for_backend",
)


@frozen
class BackedCache:
    """A cache of one layer with the backend that serves it."""

    layer: int
    """Index in the model."""
    cache: CacheLayer
    backend: AttentionBackend | None


def backed_caches(
    model: ModelArchitecture, context: CacheContext
) -> tuple[BackedCache, ...]:
    """Return each cache of a model with its backend, in the model's order.

    Raises:
        Refused: in vLLM's words, when no backend supports a layer.
    """
    # Layers of one kind share their caches, which are identified by id(): hashing their
    # fields for each layer would take longer than everything else.
    chosen: dict[tuple[int, int], AttentionBackend | None] = {}
    found = []
    for layer, kind in enumerate(_kinds(model)):
        # The index only matters where layers are skipped.
        place = layer if context.skip_layers else 0
        for cache in kind.caches:
            key = (place, id(cache))
            if key not in chosen:
                here = _for_layer(context, layer)
                family = _family(type(cache))
                chosen[key] = None if family is None else family.backend(cache, here)
            found.append(BackedCache(layer=layer, cache=cache, backend=chosen[key]))
    return tuple(found)


def _kinds(model: ModelArchitecture) -> tuple[LayerKind, ...]:
    """Return the kind of each layer; a draft's layers follow its target's."""
    own = tuple(model.layer_kinds[kind] for kind in model.layers)
    draft = None if model.speculation is None else model.speculation.draft
    return own if draft is None else (*own, *_kinds(draft))


def _for_layer(context: CacheContext, layer: int) -> CacheContext:
    """Return the deployment of one layer, with its index only where it matters."""
    return replace(context, layer_index=layer) if context.skip_layers else context


def _tables() -> Iterator[Mapping[type, CacheFamily]]:
    """Import the families one after the other: most models need the first alone."""
    yield attention_caches.FAMILIES
    from planner.memory.kv_cache import mla_caches  # noqa: PLC0415 - latent attention only

    yield mla_caches.FAMILIES
    from planner.memory.kv_cache import mamba_caches  # noqa: PLC0415 - states only

    yield mamba_caches.FAMILIES
    from planner.memory.kv_cache import (  # noqa: PLC0415 - one model each
        deepseek_v4_caches,
        sparse_caches,
        step5_caches,
    )

    yield deepseek_v4_caches.FAMILIES
    yield sparse_caches.FAMILIES
    yield step5_caches.FAMILIES


def _family(kind: type) -> CacheFamily | None:
    return next((table[kind] for table in _tables() if kind in table), None)


def _spec(
    cache: CacheLayer,
    backend: AttentionBackend | None,
    context: CacheContext,
    sizes: BlockSizes,
) -> KVCacheSpec | None:
    family = _family(type(cache))
    if family is None:
        raise UnknownArchitecture(
            f"{type(cache).__name__}: this kind of KV cache is not modelled yet."
        )
    place = CachePlace(backend, context, sizes)
    return place.stored(family.spec(cache, place))


def layer_specs(
    caches: tuple[BackedCache, ...], context: CacheContext, sizes: BlockSizes
) -> tuple[tuple[int, KVCacheSpec], ...]:
    """Return each KV cache spec with the index of its layer, in the model's order.

    Raises:
        Refused: when KV heads and tensor parallel size do not divide each other.
        UnknownArchitecture: for a kind of cache that is not modelled.
    """
    known: dict[tuple[int, int], KVCacheSpec | None] = {}
    specs = []
    for held in caches:
        key = (held.layer if context.skip_layers else 0, id(held.cache))
        if key not in known:
            here = _for_layer(context, held.layer)
            known[key] = _spec(held.cache, held.backend, here, sizes)
        spec = known[key]
        if spec is not None:
            specs.append((held.layer, spec))
    return tuple(specs)


def token_page_bytes(held: BackedCache, context: CacheContext) -> int:
    """Return the page of one attention layer for one token.

    For keys and values it is the page of a layer as the config declares it; for latent
    vectors their plain values, without the scales of quantised ones.

    Source: vLLM 0.33.0 `platforms/interface.py` _align_hybrid_block_size.
    """
    cache: CacheLayer = held.cache
    if isinstance(cache, MLALayer) and held.backend is not None:
        from planner.memory.kv_cache.mla_caches import kept_dtype  # noqa: PLC0415 - latent attention only

        kept = kept_dtype(held.backend, context.kv_cache_dtype)
        return context.head_size * kv_element_bytes(context.dtype, kept)
    if isinstance(cache, AttentionLayer):
        cache = AttentionLayer(
            num_heads=context.num_heads,
            num_kv_heads=context.num_kv_heads,
            head_size=context.head_size,
        )
    sizes = BlockSizes(block_size=1)
    spec = _spec(cache, held.backend, context, sizes)
    return 0 if spec is None else spec.page_size_bytes


def distinct_backends(caches: tuple[BackedCache, ...]) -> tuple[AttentionBackend, ...]:
    """Return the backends that affect the block size, in the order of their layers."""
    # Layers of one kind share one object, so that few backends are compared.
    objects = {id(held.backend): held.backend for held in caches}
    return tuple(
        dict.fromkeys(
            backend
            for backend in objects.values()
            if backend is not None and not backend.is_ssm
        )
    )


def preferred_block_size(
    backends: tuple[AttentionBackend, ...], context: CacheContext
) -> int:
    """Return the smallest block size that every backend supports, preferably 16.

    Raises:
        Refused: when there is none.

    Source: vLLM 0.33.0 `platforms/interface.py` _preferred_block_size_for_backends.
    """
    default = DEFAULT_BLOCK_SIZE
    if not backends:
        return default
    if len(backends) == 1:
        return backends[0].preferred_block_size(default, context)
    if all(b.supports_block_size(default, context) for b in backends):
        return default
    sizes = [
        [s.base if isinstance(s, MultipleOf) else s for s in found] or [1]
        for found in (b.kernel_block_sizes(context) for b in backends)
    ]
    for candidate in sorted({lcm(*chosen) for chosen in product(*sizes)}):
        if all(b.supports_block_size(candidate, context) for b in backends):
            return candidate
    raise Refused("The attention backends share no supported KV cache block size.")


def first_block_size(
    caches: tuple[BackedCache, ...],
    backends: tuple[AttentionBackend, ...],
    context: CacheContext,
) -> int:
    """Return the tokens of a block before it is aligned to states.

    Source: vLLM 0.33.0 `platforms/interface.py` update_block_size_for_backend; 0.17.1
    `platforms/cuda.py` check_and_update_config.
    """
    if context.gpu.is_cpu:
        from planner.memory.kv_cache import cpu_attention  # noqa: PLC0415 - the CPU build only

        return cpu_attention.first_block_size(backends, context)
    release, requested = context.layout.release, context.requested_block_size
    if release.has(_BLOCK_SIZE_BY_BACKEND):
        return requested or preferred_block_size(backends, context)
    size = requested or DEFAULT_BLOCK_SIZE
    latent = next((h.cache for h in caches if isinstance(h.cache, MLALayer)), None)
    if latent is None:
        return size
    step = _latent_block_size(release, context.major, latent.qk_nope_head_dim)
    if latent.index_topk is not None:
        step = _SPARSE_BLOCK
    return size if size % step == 0 else step


def _latent_block_size(release: Release, major: int, qk_nope_head_dim: int) -> int:
    """Return the multiple to which blocks of latent attention are set, before 0.18.0.

    `major` is the GPU's compute capability. B200 has the blocks of FLASHINFER_MLA or
    CUTLASS_MLA.

    Source: vLLM 0.17.1, 0.14.1 and 0.10.0 `platforms/cuda.py`
    check_and_update_config.
    """
    if major == HOPPER.major:
        return 64
    if major != DATACENTER_BLACKWELL.major or not release.has(CONSIDERS_CUTLASS):
        return 16
    is_considered = release.has(CONSIDERS_FLASHINFER)
    return 64 if is_considered and qk_nope_head_dim == _FLASHINFER_NOPE else 128
