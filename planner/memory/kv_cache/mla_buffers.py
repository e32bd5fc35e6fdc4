"""Buffers that the kernels of latent attention allocate while the model is built."""

from __future__ import annotations

from collections.abc import Sequence

from planner.engine.generations import DATACENTER_BLACKWELL, WORKSTATION_BLACKWELL
from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.layer_caches import BackedCache
from planner.memory.kv_cache.mla_backends import CutlassMLA, FlashInferMLA
from planner.memory.kv_cache.mla_sparse_backends import FlashAttentionMLASparse
from planner.models.caches import MLALayer
from planner.models.layers import Module, Part, Replicated
from planner.models.tensors import Tensor, Tensors
from planner.units import MIB
from planner.values import frozen

_WORKSPACE_BYTES = 128 * MIB
_CUTLASS_MLA_WORKSPACE = Change(
    since=(0, 10),
    what="CUTLASS_MLA allocates a workspace when its module is imported.",
    source="vLLM 0.10.0 `v1/attention/backends/mla/cutlass_mla.py`",
)
_IMPORTS_ALL_MLA_CANDIDATES = Change(
    since=(0, 11, 1),
    what=(
        "Every candidate for latent attention is imported before one is selected. "
        "Before, a chain of conditions determined the one to import."
    ),
    source="vLLM 0.11.1 `platforms/cuda.py` get_valid_backends",
)
_SHORT_MLA_LIST = Change(
    since=(0, 24),
    what=(
        "RTX Blackwell has its own candidates for latent attention, without "
        "FLASHINFER_MLA."
    ),
    source="vLLM 0.24.0 `platforms/cuda.py` _get_backend_priorities",
)
_FLASHINFER_MLA_WORKSPACE = Change(
    since=(0, 10, 2),
    until=(0, 25),
    what=(
        "FLASHINFER_MLA allocates its workspace when its module is imported. Later "
        "releases allocate it at the first step."
    ),
    source=(
        "vLLM 0.10.2 and 0.25.0 `v1/attention/backends/mla/flashinfer_mla.py` "
        "g_fi_workspace"
    ),
)
_SPARSE_INDEX_GROUPS = Change(
    since=(0, 30),
    what="Layers that share selected tokens have a buffer of their positions.",
    source="vLLM 0.30.0 `v1/attention/backends/mla/index_group.py`",
)


def sparse_buffers(
    caches: Sequence[BackedCache], context: CacheContext
) -> tuple[Module, ...]:
    """Return the buffers of one pipeline stage, given its sparse caches in order.

    Layers that share one selection of tokens share the buffer of their positions; the
    first layer of a stage begins a group even where it does not select tokens.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/index_group.py`
    SparseMLAIndexGroupBuilder, get_sparse_mla_index_group_max_rows;
    `v1/attention/backend.py` max_decode_query_len;
    `v1/attention/backends/mla/flashattn_mla_sparse.py` FlashAttnMLASparseImpl.
    """
    has_groups = context.layout.release.has(_SPARSE_INDEX_GROUPS)
    decoded = context.max_num_seqs * (1 + context.num_speculative_tokens)
    rows = min(context.max_num_batched_tokens, decoded) + 1
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


@frozen
class ImportedWorkspace:
    """The workspace that a module of vLLM allocates on import, for all layers."""

    name: str
    part: Part = Part.BUFFERS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the workspace."""
        return (Tensor(_WORKSPACE_BYTES, "uint8", self.name),)


def imported_workspaces(
    caches: Sequence[BackedCache], context: CacheContext
) -> tuple[Module, ...]:
    """Return the workspaces of the backends that a rank with these caches imports.

    Automatic selection imports every candidate to check it.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/cutlass_mla.py` g_sm100_workspace;
    vLLM 0.24.0 `v1/attention/backends/mla/flashinfer_mla.py` g_fi_workspace;
    `platforms/cuda.py` get_attn_backend_cls.
    """
    if not any(isinstance(held.cache, MLALayer) for held in caches):
        return ()
    release = context.layout.release
    kept = {
        CutlassMLA.name: release.has(_CUTLASS_MLA_WORKSPACE),
        FlashInferMLA.name: release.has(_FLASHINFER_MLA_WORKSPACE),
    }
    if any(isinstance(held.backend, CutlassMLA) for held in caches):
        kept[CutlassMLA.name] = False  # already counted as a buffer of the model
    return tuple(
        ImportedWorkspace(name=f"{name}'s workspace")
        for name in _imported(context)
        if kept.get(name)
    )


def _imported(context: CacheContext) -> tuple[str, ...]:
    """Return those backends with workspaces whose modules are imported."""
    release, capability = context.layout.release, context.gpu.compute_capability
    if context.requested_backend is not None:
        return (context.requested_backend.upper(),)
    if not release.has(_IMPORTS_ALL_MLA_CANDIDATES):
        # B200 always used blocks of 128 tokens, and therefore CUTLASS_MLA.
        return (CutlassMLA.name,) if capability == DATACENTER_BLACKWELL else ()
    if context.major == DATACENTER_BLACKWELL.major:
        return (FlashInferMLA.name, CutlassMLA.name)
    if context.major == WORKSTATION_BLACKWELL.major and release.has(_SHORT_MLA_LIST):
        return ()
    return (FlashInferMLA.name,)


def cutlass_workspace(
    caches: Sequence[BackedCache], context: CacheContext
) -> tuple[Module, ...]:
    """Return the one workspace of CUTLASS_MLA, which its layers share.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/cutlass_mla.py` g_sm100_workspace.
    """
    is_chosen = any(isinstance(held.backend, CutlassMLA) for held in caches)
    if not is_chosen or not context.layout.release.has(_CUTLASS_MLA_WORKSPACE):
        return ()
    return (
        Replicated(
            "g_sm100_workspace", Part.BUFFERS, ((_WORKSPACE_BYTES,),), dtype="uint8"
        ),
    )


def _group(layer: MLALayer, topk: int, rows: int, context: CacheContext) -> Replicated:
    """Return the positions of the selected tokens, and their number."""
    if layer.choice_width is None:
        return _integers("index_group", (rows, topk), (rows,))
    rows = context.max_num_batched_tokens + 1
    return _integers("index_group", (rows, layer.choice_width), (rows,))


def _integers(name: str, *shapes: tuple[int, ...]) -> Replicated:
    return Replicated(name, Part.BUFFERS, shapes, dtype="int32")
