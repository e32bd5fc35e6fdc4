"""The attention kernels of a model, and what follows from them.

They determine the sizes of blocks and pages, the KV cache specs, buffers on each
pipeline stage, and which CUDA graphs vLLM can capture.

Source: vLLM 0.33.0 `platforms/interface.py` update_block_size_for_backend.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from planner.engine.generations import HOPPER
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.releases.shared import PACKS_PAGES
from planner.memory.compilation import Compilation, GraphMode
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.choosing import (
    check_aligned,
    kernel_buffers,
    suiting_skipped,
)
from planner.memory.kv_cache.kv_spec import KVCacheSpec
from planner.memory.kv_cache.layer_caches import (
    BackedCache,
    backed_caches,
    distinct_backends,
    first_block_size,
    layer_specs,
    token_page_bytes,
)
from planner.memory.kv_cache.layout import (
    KVCacheLayout,
    resolve_layout,
    supported_layouts,
)
from planner.models.architecture import ModelArchitecture
from planner.models.caches import AttentionLayer, MLALayer
from planner.models.layers import Module
from planner.values import frozen

_REMEMBERED = 256
"""Models times deployments; a sweep over lengths and batches needs only one."""
_CHECKS_ALIGNED_BLOCKS = Change(
    since=(0, 32),
    what="Blocks aligned to a size that a backend does not support are refused.",
    source="vLLM 0.32.0 `platforms/interface.py` _check_aligned_block_size",
)
_KV_COUNTER = Change(
    since=(0, 33),
    what="Layers that FlashInfer serves share a counter for TRT-LLM's kernels.",
    source=(
        "vLLM 0.33.0 `v1/attention/backends/flashinfer.py` "
        "_get_multi_ctas_kv_counter_buffer"
    ),
)
_CAPTURE_MIXED_BATCHES = ("TRITON_ATTN", "TRITON_ATTN_DIFFKV", "FLEX_ATTENTION")
_FLASH_BACKENDS = ("FLASH_ATTN", "FLASH_ATTN_DIFFKV")


@frozen(eq=False)
class LayerKernels:
    """The kernels of a model's layers, independent of the batch.

    Two instances are never equal: results are cached under the instance itself.
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
    """Caches of latent attention, in the model's order."""


@frozen
class Kernels:
    """The kernels of a model's layers, and their buffers."""

    layers: LayerKernels
    buffers: tuple[tuple[Module, ...], ...]
    """Buffers that the kernels allocate on each stage while the model is built."""

    @property
    def sizes(self) -> BlockSizes:
        """Sizes of blocks and pages, common to all layers."""
        return self.layers.sizes

    @property
    def specs(self) -> tuple[tuple[int, KVCacheSpec], ...]:
        """Each KV cache spec with the index of its layer."""
        return self.layers.specs


def resolve_kernels(model: ModelArchitecture, context: CacheContext) -> Kernels:
    """Select a kernel for every layer, and derive sizes, specs and buffers.

    Raises:
        Refused: in vLLM's words, when no kernel supports a layer.
        UnknownArchitecture: for a kind of cache that is not modelled.
    """
    layers = _layer_kernels(model, _without_batch(context, model))
    return Kernels(layers=layers, buffers=_stage_buffers(model, layers, context))


def stage_layers(model: ModelArchitecture, layout: ParallelLayout) -> tuple[range, ...]:
    """Return the indices of each stage's layers.

    A draft is on the last stage only, and its layers follow the target's.

    Raises:
        Refused: when VLLM_PP_LAYER_PARTITION does not fit the model.

    Source: vLLM 0.33.0 `v1/worker/gpu/model_runner.py` GPUModelRunner (speculator);
    0.18.0 `v1/worker/gpu_model_runner.py` the same (drafter).
    """
    draft = None if model.speculation is None else model.speculation.draft
    extra = 0 if draft is None else draft.num_hidden_layers
    stages, begin = [], 0
    for size in layout.stage_sizes(model.num_hidden_layers):
        stages.append(range(begin, begin + size))
        begin += size
    stages[-1] = range(stages[-1].start, begin + extra)
    return tuple(stages)


def runner_mode(compilation: Compilation, kernels: Kernels, gpu: GPU) -> GraphMode:
    """Return the captured graphs; not all kernels support full graphs of mixed batches.

    Source: vLLM 0.33.0 `config/compilation.py` resolve_cudagraph_mode_and_sizes;
    `v1/attention/backends/` get_cudagraph_support of each.
    """
    if compilation.graph_mode is not GraphMode.FULL:
        return compilation.graph_mode
    names = {held.backend.name for held in kernels.layers.caches if held.backend}
    has_states = any(spec.is_state for _, spec in kernels.specs)
    is_flash_3 = gpu.compute_capability[0] >= HOPPER.major
    capturing = (*_CAPTURE_MIXED_BATCHES, *(_FLASH_BACKENDS if is_flash_3 else ()))
    if names and names <= set(capturing) and not has_states:
        return GraphMode.FULL
    if compilation.is_compiled:
        return GraphMode.FULL_AND_PIECEWISE
    return GraphMode.FULL_DECODE_ONLY


def _without_batch(context: CacheContext, model: ModelArchitecture) -> CacheContext:
    """Leave out what only buffers depend on, and the length where no state needs it."""
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
        sizes = suiting_skipped(sizes, backends[0], context)
    release = context.layout.release
    if release.has(_CHECKS_ALIGNED_BLOCKS):
        check_aligned(block_size, sizes, backends, context)
    specs = layer_specs(caches, context, sizes)
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
    """Return the first of all layers that share a cache and its kernel."""
    first: dict[tuple[int, int], BackedCache] = {}
    for held in caches:
        first.setdefault((id(held.cache), id(held.backend)), held)
    return tuple(first.values())


def _layout(
    caches: tuple[BackedCache, ...],
    specs: tuple[tuple[int, KVCacheSpec], ...],
    context: CacheContext,
) -> KVCacheLayout:
    """Return the layout of the KV cache; any will do where pages are not packed."""
    if not context.layout.release.has(PACKS_PAGES):
        return KVCacheLayout.LBNHC
    objects = {id(held.backend): held.backend for held in caches}
    layouts = supported_layouts(
        backend.layouts(context)
        for backend in dict.fromkeys(objects.values())
        if backend is not None
    )
    wanted = KVCacheLayout.LBHNC if context.offloads_blocks else None
    return resolve_layout(layouts, [spec for _, spec in specs], wanted)


def _stage_buffers(
    model: ModelArchitecture, kernels: LayerKernels, context: CacheContext
) -> tuple[tuple[Module, ...], ...]:
    """Return the buffers that the kernels allocate on each pipeline stage."""
    if context.gpu.is_cpu:
        return ((),) * context.layout.pipeline_parallel_size
    shared = _buffers(kernels.distinct, context)
    layers_of_stages = stage_layers(model, context.layout)
    if not kernels.latent:
        return (shared,) * len(layers_of_stages)
    from planner.memory.kv_cache.mla_buffers import (  # noqa: PLC0415 - latent attention only
        cutlass_workspace,
        imported_workspaces,
        sparse_buffers,
    )

    stages = []
    for layers in layers_of_stages:
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
    """Return a stage's sparse latent caches, and one latent cache of each kind."""
    held = tuple(c for c in kernels.latent if begin <= c.layer < end)
    return tuple(c for c in held if _is_sparse(c)), _distinct(held)


def _is_sparse(held: BackedCache) -> bool:
    """Whether a layer attends only to selected tokens."""
    return isinstance(held.cache, MLALayer) and held.cache.index_topk is not None


def _with_states(
    sizes: BlockSizes,
    model: ModelArchitecture,
    caches: tuple[BackedCache, ...],
    context: CacheContext,
) -> BlockSizes:
    """Return sizes that also suit the model's layers with states, if any."""
    if not model.state_layers:
        return sizes
    backends = distinct_backends(caches)
    token_bytes = 0
    if backends:
        latent = [held for held in caches if isinstance(held.cache, MLALayer)]
        served = [held for held in caches if held.backend == backends[0]]
        first = (latent or served)[0]
        token_bytes = token_page_bytes(first, context)
    from planner.memory.kv_cache.mamba_caches import aligned  # noqa: PLC0415 - states only

    return aligned(sizes, model.state_layers, backends, token_bytes, context)


def _buffers(
    caches: tuple[BackedCache, ...], context: CacheContext
) -> tuple[Module, ...]:
    """Return the buffers that all layers share."""
    if not context.layout.release.has(_KV_COUNTER):
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
