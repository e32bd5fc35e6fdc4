"""What the kernels of latent attention allocate while the model is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.caches import MLALayer
from planner.layers import Module, Part, Replicated
from planner.memory.cache_context import CacheContext
from planner.memory.layer_caches import BackedCache
from planner.memory.mla_backends import CutlassMLA, FlashInferMLA
from planner.memory.mla_sparse_backends import FlashAttentionMLASparse
from planner.parallel import (
    DATACENTER_BLACKWELL,
    WORKSTATION_BLACKWELL,
    ParallelLayout,
)
from planner.tensors import Tensor
from planner.units import MIB

_WORKSPACE_BYTES = 128 * MIB


def is_sparse(held: BackedCache) -> bool:
    """Whether a layer attends to chosen tokens alone."""
    return isinstance(held.cache, MLALayer) and held.cache.index_topk is not None


def sparse_buffers(
    caches: Sequence[BackedCache], context: CacheContext
) -> tuple[Module, ...]:
    """Return the buffers of one pipeline stage, whose sparse caches come in order.

    Layers that share one choice of tokens share the places of these tokens; the first
    layer of a stage begins a group of its own even where it chooses nothing.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/index_group.py`
    SparseMLAIndexGroupBuilder, get_sparse_mla_index_group_max_rows;
    `v1/attention/backends/mla/flashattn_mla_sparse.py` FlashAttnMLASparseImpl.
    """
    has_groups = context.layout.release.has_sparse_index_groups
    rows = min(context.max_num_batched_tokens, context.max_num_seqs) + 1
    found: list[Module] = []
    has_group = False
    for held in caches:
        layer = held.cache
        if not isinstance(layer, MLALayer) or layer.index_topk is None:
            continue
        if has_groups and (layer.has_indexer or not has_group):
            has_group = True
            found.append(_group(layer, layer.index_topk, rows, context))
        if isinstance(held.backend, FlashAttentionMLASparse):
            tokens = context.max_num_batched_tokens
            found.append(_integers("cu_seqlens_q_buffer", (tokens + 1,)))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedWorkspace:
    """What a module of vLLM allocates when it is imported, once for all layers."""

    name: str
    part: Part = Part.BUFFERS

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:  # noqa: ARG002
        """Return the workspace."""
        return (Tensor(_WORKSPACE_BYTES, "uint8", self.name),)


def imported_workspaces(
    caches: Sequence[BackedCache], context: CacheContext
) -> tuple[Module, ...]:
    """Return the workspaces of the backends that a rank with these caches imports.

    An automatic choice imports every candidate to ask it, chosen or not.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/cutlass_mla.py` g_sm100_workspace;
    vLLM 0.24.0 `v1/attention/backends/mla/flashinfer_mla.py` g_fi_workspace;
    `platforms/cuda.py` get_attn_backend_cls.
    """
    if not any(isinstance(held.cache, MLALayer) for held in caches):
        return ()
    release = context.layout.release
    kept = {
        CutlassMLA.name: release.has_cutlass_mla_workspace,
        FlashInferMLA.name: release.imports_flashinfer_mla_workspace,
    }
    if any(isinstance(held.backend, CutlassMLA) for held in caches):
        kept[CutlassMLA.name] = False  # counted as a buffer of the model
    return tuple(
        ImportedWorkspace(name=f"{name}'s workspace")
        for name in _imported(context)
        if kept.get(name)
    )


def _imported(context: CacheContext) -> tuple[str, ...]:
    """Return the backends whose modules are imported, of those with workspaces."""
    release, capability = context.layout.release, context.gpu.compute_capability
    if context.asked_backend is not None:
        return (context.asked_backend.upper(),)
    if not release.imports_all_mla_candidates:
        # Blocks of 128 tokens were forced on B200, and with them CUTLASS_MLA.
        return (CutlassMLA.name,) if capability == (DATACENTER_BLACKWELL, 0) else ()
    if context.major == DATACENTER_BLACKWELL:
        return (FlashInferMLA.name, CutlassMLA.name)
    if context.major == WORKSTATION_BLACKWELL and release.has_short_mla_list:
        return ()
    return (FlashInferMLA.name,)


def cutlass_workspace(
    caches: Sequence[BackedCache], context: CacheContext
) -> tuple[Module, ...]:
    """Return the one workspace of CUTLASS_MLA, which its layers hold.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/cutlass_mla.py` g_sm100_workspace.
    """
    is_chosen = any(isinstance(held.backend, CutlassMLA) for held in caches)
    if not is_chosen or not context.layout.release.has_cutlass_mla_workspace:
        return ()
    return (
        Replicated(
            name="g_sm100_workspace",
            part=Part.BUFFERS,
            shapes=((_WORKSPACE_BYTES,),),
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
