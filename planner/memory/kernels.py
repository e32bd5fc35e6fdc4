"""What the attention kernels of a model decide: block sizes, specs, buffers.

Source: vLLM 0.33.0 `platforms/interface.py` update_block_size_for_backend.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.caches import AttentionLayer, MLALayer
from planner.layers import Module
from planner.memory.attention_backend import kernel_buffers
from planner.memory.cache_context import BlockSizes, CacheContext
from planner.memory.hybrid_blocks import aligned
from planner.memory.kv_layout import KVCacheLayout, resolve_layout, supported_layouts
from planner.memory.kv_spec import KVCacheSpec
from planner.memory.layer_caches import (
    BackedCache,
    backed_caches,
    distinct_backends,
    layer_specs,
    preferred_block_size,
    token_page_bytes,
)
from planner.memory.mla_buffers import (
    cutlass_workspace,
    imported_workspaces,
    sparse_buffers,
)
from planner.memory.skipped_layers import check_aligned, suiting_both
from planner.model import ModelArchitecture


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """What follows from the kernels that serve a model's layers."""

    sizes: BlockSizes
    specs: tuple[tuple[int, KVCacheSpec], ...]
    """Each KV cache spec with the index of its layer."""
    layout: KVCacheLayout
    buffers: tuple[tuple[Module, ...], ...]
    """What the kernels allocate on each stage while the model is built."""


def resolve_kernels(model: ModelArchitecture, context: CacheContext) -> Kernels:
    """Choose a kernel for every layer and draw the consequences.

    Raises:
        Refused: in vLLM's words, when a layer finds no kernel.
        UnknownArchitecture: for a kind of cache that is not modelled.
    """
    caches = backed_caches(model, context)
    backends = distinct_backends(caches)
    block_size = context.asked_block_size or preferred_block_size(backends, context)
    sizes = _with_states(BlockSizes(block_size=block_size), model, caches, context)
    if context.skip_layers and backends:
        sizes = suiting_both(sizes, backends[0], context)
    check_aligned(block_size, sizes, backends, context)
    specs = layer_specs(caches, context, sizes)
    layouts = supported_layouts(
        held.layouts(context)
        for held in dict.fromkeys(c.backend for c in caches)
        if held is not None
    )
    return Kernels(
        sizes=sizes,
        specs=specs,
        layout=resolve_layout(layouts, [spec for _, spec in specs]),
        buffers=_stage_buffers(model, caches, context),
    )


def _stage_buffers(
    model: ModelArchitecture, caches: tuple[BackedCache, ...], context: CacheContext
) -> tuple[tuple[Module, ...], ...]:
    """Return what the kernels allocate on each pipeline stage."""
    shared = _buffers(caches, context)
    stages, begin = [], 0
    for size in context.layout.stage_sizes(model.num_hidden_layers):
        held = [c for c in caches if begin <= c.layer < begin + size]
        stages.append(
            (
                *shared,
                *cutlass_workspace(held, context),
                *imported_workspaces(held, context),
                *sparse_buffers(held, context),
            )
        )
        begin += size
    return tuple(stages)


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
