"""What the attention kernels of a model decide: block sizes, specs, buffers.

Source: vLLM 0.33.0 `platforms/interface.py` update_block_size_for_backend.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from planner.caches import AttentionLayer, MLALayer
from planner.errors import UnknownArchitecture
from planner.layers import Module
from planner.memory.attention_backend import kernel_buffers
from planner.memory.cache_context import BlockSizes, CacheContext
from planner.memory.compressed_specs import (
    CircularBufferSpec,
    CompressedMLASpec,
    SlidingWindowMLASpec,
)
from planner.memory.hybrid_blocks import aligned
from planner.memory.kv_layout import KVCacheLayout, resolve_layout, supported_layouts
from planner.memory.kv_spec import KVCacheSpec
from planner.memory.layer_caches import (
    BackedCache,
    backed_caches,
    distinct_backends,
    first_block_size,
    layer_specs,
    token_page_bytes,
)
from planner.memory.mla_buffers import (
    cutlass_workspace,
    imported_workspaces,
    is_sparse,
    sparse_buffers,
)
from planner.memory.skipped_layers import check_aligned, suiting_both
from planner.memory.stage_layers import stage_layers
from planner.model import ModelArchitecture
from planner.releases import Release

_REMEMBERED = 256
"""Models times deployments; a sweep over lengths and batches asks for one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerKernels:
    """The kernels of a model's layers, whatever the batch.

    Two of them are never equal: what was computed for one is remembered under it.
    """

    release: Release
    caches: tuple[BackedCache, ...]
    """Each cache with its kernel, in the model's order."""
    sizes: BlockSizes
    specs: tuple[tuple[int, KVCacheSpec], ...]
    """Each KV cache spec with the index of its layer."""
    layout: KVCacheLayout
    distinct: tuple[BackedCache, ...]
    """One of each kind of cache and kernel, in the order of their first layers."""
    latent: tuple[BackedCache, ...]
    """Those of latent attention, in the model's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """What follows from the kernels that serve a model's layers."""

    layers: LayerKernels
    buffers: tuple[tuple[Module, ...], ...]
    """What the kernels allocate on each stage while the model is built."""

    @property
    def sizes(self) -> BlockSizes:
        """Sizes of blocks and pages that all layers agree on."""
        return self.layers.sizes

    @property
    def specs(self) -> tuple[tuple[int, KVCacheSpec], ...]:
        """Each KV cache spec with the index of its layer."""
        return self.layers.specs


def resolve_kernels(model: ModelArchitecture, context: CacheContext) -> Kernels:
    """Choose a kernel for every layer and draw the consequences.

    Raises:
        Refused: in vLLM's words, when a layer finds no kernel.
        UnknownArchitecture: for a kind of cache that is not modelled.
    """
    layers = _layer_kernels(model, _without_batch(context, model))
    return Kernels(layers=layers, buffers=_stage_buffers(model, layers, context))


def _without_batch(context: CacheContext, model: ModelArchitecture) -> CacheContext:
    """Leave out what only buffers depend on, and lengths where no state does."""
    length = context.max_model_len if model.state_layers else 0
    return replace(
        context, max_num_batched_tokens=0, max_num_seqs=0, max_model_len=length
    )


@lru_cache(maxsize=_REMEMBERED)
def _layer_kernels(model: ModelArchitecture, context: CacheContext) -> LayerKernels:
    caches = backed_caches(model, context)
    backends = distinct_backends(caches)
    block_size = first_block_size(caches, backends, context)
    sizes = _with_states(BlockSizes(block_size=block_size), model, caches, context)
    if context.skip_layers and backends:
        sizes = suiting_both(sizes, backends[0], context)
    release = context.layout.release
    if release.checks_aligned_blocks:
        check_aligned(block_size, sizes, backends, context)
    specs = layer_specs(caches, context, sizes)
    _check_known(specs, context)
    return LayerKernels(
        release=release,
        caches=caches,
        sizes=sizes,
        specs=specs,
        layout=_layout(caches, specs, context),
        distinct=_distinct(caches),
        latent=tuple(held for held in caches if isinstance(held.cache, MLALayer)),
    )


def _distinct(caches: tuple[BackedCache, ...]) -> tuple[BackedCache, ...]:
    """Keep the first of layers that share their cache and its kernel."""
    first: dict[tuple[int, int], BackedCache] = {}
    for held in caches:
        first.setdefault((id(held.cache), id(held.backend)), held)
    return tuple(first.values())


def _check_known(
    specs: tuple[tuple[int, KVCacheSpec], ...], context: CacheContext
) -> None:
    """Leave out caches that older releases group in a way of their own.

    Raises:
        UnknownArchitecture: naming the release.
    """
    release = context.layout.release
    if release.packs_pages:
        return
    kinds = CompressedMLASpec | SlidingWindowMLASpec | CircularBufferSpec
    if any(isinstance(spec, kinds) for _, spec in specs):
        raise UnknownArchitecture(
            f"vllm_version={release.version}: how this release groups compressed KV "
            "caches is not modelled. 0.29.0 and later are."
        )


def _layout(
    caches: tuple[BackedCache, ...],
    specs: tuple[tuple[int, KVCacheSpec], ...],
    context: CacheContext,
) -> KVCacheLayout:
    """Return the order of the KV cache; where pages are not packed, any will do."""
    if not context.layout.release.packs_pages:
        return KVCacheLayout.LBNHC
    objects = {id(held.backend): held.backend for held in caches}
    layouts = supported_layouts(
        backend.layouts(context)
        for backend in dict.fromkeys(objects.values())
        if backend is not None
    )
    wanted = KVCacheLayout.LBHNC if context.hands_blocks_over else None
    return resolve_layout(layouts, [spec for _, spec in specs], wanted)


def _stage_buffers(
    model: ModelArchitecture, kernels: LayerKernels, context: CacheContext
) -> tuple[tuple[Module, ...], ...]:
    """Return what the kernels allocate on each pipeline stage."""
    if context.gpu.is_cpu:
        return ((),) * context.layout.pipeline_parallel_size
    shared = _buffers(kernels.distinct, context)
    stages = []
    for layers in stage_layers(model, context.layout):
        held, distinct = _latent_on_stage(kernels, layers.start, layers.stop)
        stages.append(
            (
                *shared,
                *cutlass_workspace(distinct, context),
                *imported_workspaces(distinct, context),
                *sparse_buffers(held, context),
            )
        )
    return tuple(stages)


@lru_cache(maxsize=_REMEMBERED)
def _latent_on_stage(
    kernels: LayerKernels, begin: int, end: int
) -> tuple[tuple[BackedCache, ...], tuple[BackedCache, ...]]:
    """Return a stage's sparse caches of latent attention, and one latent of a kind."""
    held = tuple(c for c in kernels.latent if begin <= c.layer < end)
    sparse = tuple(c for c in held if is_sparse(c))
    return sparse, _distinct(held)


def _with_states(
    sizes: BlockSizes,
    model: ModelArchitecture,
    caches: tuple[BackedCache, ...],
    context: CacheContext,
) -> BlockSizes:
    """Return sizes that also suit the model's layers with states, if it has any."""
    if not model.state_layers:
        return sizes
    backends = distinct_backends(caches)
    token_bytes = 0
    if backends:
        latent = [held for held in caches if isinstance(held.cache, MLALayer)]
        served = [held for held in caches if held.backend == backends[0]]
        first = (latent or served)[0]
        token_bytes = token_page_bytes(first, context)
    return aligned(sizes, model.state_layers, backends, token_bytes, context)


def _buffers(
    caches: tuple[BackedCache, ...], context: CacheContext
) -> tuple[Module, ...]:
    """Return what the kernels keep once for all layers."""
    if not context.layout.release.has_kv_counter:
        return ()
    ranks = context.layout.tensor_parallel_size
    for held in caches:
        if held.backend is None or not isinstance(held.cache, AttentionLayer):
            continue
        buffers = kernel_buffers(
            held.backend,
            max_num_batched_tokens=context.max_num_batched_tokens,
            num_heads=held.cache.num_heads
            // ranks
            * context.layout.decode_context_parallel_size,
            gpu=context.gpu,
        )
        if buffers:
            return buffers
    return ()
