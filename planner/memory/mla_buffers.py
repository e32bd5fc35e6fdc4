"""What the kernels of latent attention allocate while the model is built."""

from __future__ import annotations

from collections.abc import Sequence

from planner.caches import MLALayer
from planner.layers import Module, Part, Replicated
from planner.memory.cache_context import CacheContext
from planner.memory.layer_caches import BackedCache
from planner.memory.mla_backends import CutlassMLA
from planner.memory.mla_sparse_backends import FlashAttentionMLASparse
from planner.units import MIB


def sparse_buffers(
    caches: Sequence[BackedCache], context: CacheContext
) -> tuple[Module, ...]:
    """Return the buffers of one pipeline stage, whose caches are given in order.

    Layers that share one choice of tokens share the places of these tokens; the first
    layer of a stage begins a group of its own even where it chooses nothing.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/index_group.py`
    SparseMLAIndexGroupBuilder, get_sparse_mla_index_group_max_rows;
    `v1/attention/backends/mla/flashattn_mla_sparse.py` FlashAttnMLASparseImpl.
    """
    rows = min(context.max_num_batched_tokens, context.max_num_seqs) + 1
    found: list[Module] = []
    has_group = False
    for held in caches:
        layer = held.cache
        if not isinstance(layer, MLALayer) or layer.index_topk is None:
            continue
        if layer.has_indexer or not has_group:
            has_group = True
            found.append(_group(layer, layer.index_topk, rows, context))
        if isinstance(held.backend, FlashAttentionMLASparse):
            tokens = context.max_num_batched_tokens
            found.append(_integers("cu_seqlens_q_buffer", (tokens + 1,)))
    return tuple(found)


def cutlass_workspace(caches: Sequence[BackedCache]) -> tuple[Module, ...]:
    """Return the one workspace of CUTLASS_MLA, 128 MiB for all layers.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/cutlass_mla.py` g_sm100_workspace.
    """
    if not any(isinstance(held.backend, CutlassMLA) for held in caches):
        return ()
    return (
        Replicated(
            name="g_sm100_workspace",
            part=Part.BUFFERS,
            shapes=((128 * MIB,),),
            dtype="uint8",
        ),
    )


def _group(layer: MLALayer, topk: int, rows: int, context: CacheContext) -> Replicated:
    """Return the places of the tokens chosen, and how many there are."""
    if layer.choice_width is None:
        return _integers("index_group", (rows, topk), (rows,))
    rows = context.max_num_batched_tokens + 1
    return _integers("index_group", (rows, layer.choice_width), (rows,))


def _integers(name: str, *shapes: tuple[int, ...]) -> Replicated:
    return Replicated(name=name, part=Part.BUFFERS, shapes=shapes, dtype="int32")
