"""The workspace that experts, latent attention and its indexers share.

Each reserves room in it, so that the larger need counts, not the sum.
"""

from __future__ import annotations

from math import ceil

from planner.engine.generations import DATACENTER_BLACKWELL, HOPPER
from planner.engine.releases.change import Change
from planner.engine.releases.shared import CONSIDERS_SPARSE_FLASH_ATTENTION
from planner.memory.account import NOTHING, Sized, larger
from planner.memory.lines.expert_workspace import expert_workspace
from planner.memory.lines.latent_context import (
    Indexer,
    heads_on_rank,
    indexers,
    latent_layers,
)
from planner.memory.profile_run import ProfileRun
from planner.models.caches import (
    MLALayer,
)
from planner.units import MIB, format_size

_ALIGNMENT = 256
_SCALE_BYTES = 4
_TOPK_WORKSPACE = MIB
_RAGGED_HEADS = (192, 64, 256)
_PREFILL_FACTOR, _LONG_PREFILL_FACTOR = 5, 2
_LONG_CONTEXT = 256 * 1024
_LATENT_ROWS_PER_INDEXER_ROW = 8
"""A latent row of 576 x 2 bytes has room for so many indexer rows of 132 bytes."""
_FLASHMLA_HEADS = 64
_FLOAT32 = 4
_SPLIT_TOKENS, _SPLITS_PER_SM = 512, 2
_KEEPS_INDEXER_WORKSPACE = Change(
    since=(0, 13),
    what="The shared workspace has room for an indexer's keys of a prefill.",
    source="vLLM 0.13.0 `models/deepseek_v2.py` sparse_attn_indexer",
)
_KEEPS_TOPK_WORKSPACE = Change(
    since=(0, 20),
    what="The shared workspace has room for the indexer's top-k selection as well.",
    source="vLLM 0.20.0 `layers/sparse_attn_indexer.py` RADIX_TOPK_WORKSPACE_SIZE",
)
_SHORTENS_INDEXER_WORKSPACE = Change(
    since=(0, 32),
    what="The shared workspace of sparse MLA has less room for very long contexts.",
    source="vLLM 0.32.0 `config/vllm.py` sparse_mla_prefill_workspace_factor",
)
_KEEPS_FLASHMLA_QUERIES = Change(
    since=(0, 18),
    what="Sparse FlashMLA's queries are in the shared workspace.",
    source="vLLM 0.18.0 `v1/attention/backends/mla/flashmla_sparse.py`",
)
_KEEPS_FLASHMLA_OUTPUTS = Change(
    since=(0, 31),
    what=(
        "Sparse FlashMLA's padded queries and outputs of a quantised cache are in the "
        "shared workspace."
    ),
    source="vLLM 0.31.0 `v1/attention/backends/mla/flashmla_sparse.py`",
)
_KEEPS_TRITON_MLA_LOGITS = Change(
    since=(0, 33),
    what="The profile run allocates the buffers of Triton's decode kernel of MLA.",
    source="vLLM 0.33.0 `v1/attention/backends/mla/triton_mla.py` reserve_workspace",
)
_PREFERS_TRTLLM_RAGGED = Change(
    since=(0, 22),
    what=(
        "B200 uses FlashInfer's prefill for latent attention with heads of 192 + 64 "
        "and 256. FlashAttention 4 lacks them, and from 0.27 on FlashInfer comes first."
    ),
    source=(
        "vLLM 0.22.1 and 0.26.0 `v1/attention/backends/mla/prefill/flash_attn.py` "
        "supports_mla_dimensions; 0.27.0 `selector.py` of the same folder"
    ),
)


def latent_workspace(run: ProfileRun, *, kv_cache_dtype: str = "auto") -> Sized:
    """Return what latent attention reserves in the shared workspace.

    Source: vLLM 0.33.0 `layers/sparse_attn_indexer.py`,
    `v1/attention/backends/mla/` flashmla_sparse.py, triton_mla.py and
    prefill/trtllm_ragged.py.
    """
    layers = latent_layers(run)
    sizes = [_indexer_workspace(run, indexer) for indexer in indexers(run)]
    sizes += [_flashmla(run, layer, kv_cache_dtype) for layer in layers]
    sizes += [_ragged_prefill(run, layer) for layer in layers]
    sizes += [_triton_logits(run, layer) for layer in layers]
    return larger(sizes)


def shared_workspace(run: ProfileRun, *, kv_cache_dtype: str = "auto") -> Sized:
    """Return the workspace that experts and latent attention share: the larger need.

    Source: vLLM 0.33.0 `v1/worker/workspace.py` WorkspaceManager.
    """
    latent = latent_workspace(run, kv_cache_dtype=kv_cache_dtype)
    return larger([expert_workspace(run), latent])


def _indexer_workspace(run: ProfileRun, indexer: Indexer) -> Sized:
    """Return the room for an indexer's keys, scales and top-k selection of a prefill.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/indexer.py`
    get_max_prefill_buffer_size.
    """
    if not run.release.has(_KEEPS_INDEXER_WORKSPACE):
        return NOTHING
    rows = run.max_model_len * _LATENT_ROWS_PER_INDEXER_ROW * _prefill_factor(run)
    rows //= indexer.tokens
    keys = _aligned(rows * (indexer.row_bytes - _SCALE_BYTES))
    size_bytes = keys + _aligned(rows * _SCALE_BYTES)
    if run.release.has(_KEEPS_TOPK_WORKSPACE):
        size_bytes += _TOPK_WORKSPACE
    return Sized(
        size_bytes=size_bytes,
        why=(
            f"indexer: {rows:,} keys x {indexer.row_bytes} bytes = "
            f"{format_size(size_bytes)}"
        ),
    )


def _prefill_factor(run: ProfileRun) -> int:
    is_long = run.max_model_len > _LONG_CONTEXT
    if is_long and run.release.has(_SHORTENS_INDEXER_WORKSPACE):
        return _LONG_PREFILL_FACTOR
    return _PREFILL_FACTOR


def _flashmla(run: ProfileRun, layer: MLALayer, kv_cache_dtype: str) -> Sized:
    """Return the buffers of sparse FlashMLA on Hopper: queries, context, outputs."""
    release, is_fp8 = run.release, kv_cache_dtype.startswith("fp8")
    is_served = is_fp8 or not release.has(CONSIDERS_SPARSE_FLASH_ATTENTION)
    is_hopper = run.gpu.compute_capability[0] == HOPPER.major
    if layer.index_topk is None or not is_hopper or not is_served:
        return NOTHING
    if not release.has(_KEEPS_INDEXER_WORKSPACE):
        return NOTHING
    tokens, heads = run.max_num_batched_tokens, heads_on_rank(run, layer)
    latent, padded = layer.kv_lora_rank, ceil(heads / _FLASHMLA_HEADS) * _FLASHMLA_HEADS
    elements = []
    if release.has(_KEEPS_FLASHMLA_QUERIES):
        elements.append(tokens * heads * layer.head_size)
    if is_fp8:
        context = run.max_model_len * _prefill_factor(run)
        elements.append(context * layer.head_size)
    if is_fp8 and release.has(_KEEPS_FLASHMLA_OUTPUTS):
        elements += [tokens * padded * layer.head_size, tokens * padded * latent]
        elements.append(tokens * heads * latent)
    size_bytes = sum(_aligned(2 * count) for count in elements)
    return Sized(
        size_bytes=size_bytes,
        why=(
            f"FlashMLA: {tokens:,} tokens x {heads} heads, {run.max_model_len:,} "
            f"tokens of context = {format_size(size_bytes)}"
        ),
    )


def _ragged_prefill(run: ProfileRun, layer: MLALayer) -> Sized:
    """Return FlashInfer's prefill workspace on B200, for the head sizes it serves."""
    heads = (layer.qk_nope_head_dim, layer.qk_rope_head_dim, layer.v_head_dim)
    is_b200 = run.gpu.compute_capability[0] == DATACENTER_BLACKWELL.major
    is_preferred = run.release.has(_PREFERS_TRTLLM_RAGGED)
    if not (is_b200 and heads == _RAGGED_HEADS and is_preferred):
        return NOTHING
    return Sized(
        size_bytes=run.flashinfer_buffer_bytes,
        why=f"FlashInfer prefill: {format_size(run.flashinfer_buffer_bytes)}",
    )


def _triton_logits(run: ProfileRun, layer: MLALayer) -> Sized:
    """Return the logits of Triton's decode kernel, on GPUs without a better kernel."""
    has_better = run.gpu.compute_capability[0] in (
        HOPPER.major,
        DATACENTER_BLACKWELL.major,
    )
    is_kept = run.release.has(_KEEPS_TRITON_MLA_LOGITS)
    if has_better or not is_kept or layer.index_topk is not None:
        return NOTHING
    wanted = max(1, run.max_model_len // _SPLIT_TOKENS)
    most = _SPLITS_PER_SM * (run.gpu.num_sms or run.layout.num_sms)
    splits = min(1 << (wanted - 1).bit_length(), most)
    heads = heads_on_rank(run, layer) * run.layout.decode_context_parallel_size
    width = layer.kv_lora_rank + 1
    size_bytes = _aligned(run.max_num_seqs * heads * splits * width * _FLOAT32)
    return Sized(
        size_bytes=size_bytes,
        why=(
            f"Triton MLA: {run.max_num_seqs:,} requests x {heads} heads x {splits} "
            f"splits x {width} x {_FLOAT32} bytes = {format_size(size_bytes)}"
        ),
    )


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
