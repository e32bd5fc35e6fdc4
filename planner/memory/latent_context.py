"""What latent attention and its indexers need beside weights and caches.

Attention itself does not run in the profile run, so vLLM takes for a moment what the
largest prefill would need, and reserves room in the workspace that experts use too:
the two share it, so the larger counts, not the sum.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from planner.caches import (
    CompressedIndexerLayer,
    IndexerCacheLayer,
    MLALayer,
    PooledIndexerLayer,
)
from planner.memory.expert_workspace import expert_workspace
from planner.memory.profile_run import ProfileRun, once
from planner.memory.sized import NOTHING, Sized, larger
from planner.parallel import DATACENTER_BLACKWELL, HOPPER
from planner.units import MIB, format_size

_MOST_CONTEXT_TOKENS = 64 * 1024
_CONTEXT_REQUESTS = 8
_CONTEXT_BLOCKS = 4
_ALIGNMENT = 256
_SCALE_BYTES = 4
_TOPK_WORKSPACE = MIB
_INDEXER_LOGITS = 512 * MIB
"""VLLM_SPARSE_INDEXER_MAX_LOGITS_MB, unless it is set."""
_RAGGED_HEADS = (192, 64, 256)
_PREFILL_FACTOR, _LONG_PREFILL_FACTOR = 5, 2
_LONG_CONTEXT = 256 * 1024
_LATENT_ROWS_PER_INDEXER_ROW = 8
"""576 x 2 bytes of a latent row hold so many of an indexer's 132 bytes."""
_FLASHMLA_HEADS = 64
_INT32 = _FLOAT32 = 4
_SPLIT_TOKENS, _SPLITS_PER_SM = 512, 2


class _Indexer(NamedTuple):
    """An indexer's keys: bytes of one, and how many tokens it stands for."""

    row_bytes: int
    tokens: int


@once
def latent_context(run: ProfileRun) -> Sized:
    """Return what the profile run takes for a moment in place of attention.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py` MLAAttention (dummy run),
    `layers/sparse_attn_indexer.py`.
    """
    context = [_context(run, layer) for layer in _latent_layers(run)]
    return larger([*context, _indexer_logits(run)])


def latent_context_bytes(run: ProfileRun) -> int:
    """Return the bytes of `latent_context`."""
    return latent_context(run).size_bytes


def latent_workspace(run: ProfileRun, *, kv_cache_dtype: str = "auto") -> Sized:
    """Return what latent attention reserves in the shared workspace.

    Source: vLLM 0.33.0 `layers/sparse_attn_indexer.py`,
    `v1/attention/backends/mla/` flashmla_sparse.py, triton_mla.py and
    prefill/trtllm_ragged.py.
    """
    layers = _latent_layers(run)
    sizes = [_indexer_workspace(run, indexer) for indexer in _indexers(run)]
    sizes += [_flashmla(run, layer, kv_cache_dtype) for layer in layers]
    sizes += [_ragged_prefill(run, layer) for layer in layers]
    sizes += [_triton_logits(run, layer) for layer in layers]
    return larger(sizes)


def shared_workspace(run: ProfileRun, *, kv_cache_dtype: str = "auto") -> Sized:
    """Return the one workspace of experts and latent attention: the larger need.

    Source: vLLM 0.33.0 `v1/worker/workspace.py` WorkspaceManager.
    """
    latent = latent_workspace(run, kv_cache_dtype=kv_cache_dtype)
    return larger([expert_workspace(run), latent])


def context_tokens(run: ProfileRun) -> int:
    """Return the tokens of context whose keys and values exist at once.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py`
    determine_chunked_prefill_workspace_size.
    """
    wanted = max(
        _CONTEXT_REQUESTS * run.max_model_len,
        _CONTEXT_BLOCKS * run.max_num_seqs * run.block_size,
    )
    tokens = min(wanted, _MOST_CONTEXT_TOKENS)
    if not run.release.aligns_latent_context:
        return max(tokens, run.max_num_seqs * run.block_size)
    return ceil(max(tokens, run.block_size) / run.block_size) * run.block_size


@once
def _latent_layers(run: ProfileRun) -> tuple[MLALayer, ...]:
    found = (
        cache
        for kind in run.model.layer_kinds
        for cache in kind.caches
        if isinstance(cache, MLALayer)
    )
    return tuple(dict.fromkeys(found))


@once
def _indexers(run: ProfileRun) -> tuple[_Indexer, ...]:
    found: dict[_Indexer, None] = {}
    for kind in run.model.layer_kinds:
        for cache in kind.caches:
            if isinstance(cache, IndexerCacheLayer):
                found[_Indexer(cache.row_bytes, 1)] = None
            elif isinstance(cache, CompressedIndexerLayer):
                row_bytes = cache.head_size + _SCALE_BYTES
                found[_Indexer(row_bytes, cache.compress_ratio)] = None
            elif isinstance(cache, PooledIndexerLayer):
                found[_Indexer(cache.row_bytes, cache.tokens_per_state)] = None
    return tuple(found)


def _context(run: ProfileRun, layer: MLALayer) -> Sized:
    """Return the keys and values of a chunk of context, made of its latent vectors."""
    is_sparse = layer.index_topk is not None
    release = run.release
    if is_sparse and not release.reserves_sparse_latent_context:
        return NOTHING
    if not release.reserves_latent_context:
        return NOTHING
    tokens, heads = context_tokens(run), _heads(run, layer)
    width = layer.qk_nope_head_dim + layer.v_head_dim
    size_bytes = tokens * heads * width * run.element_size
    return Sized(
        size_bytes=size_bytes,
        why=(
            f"latent attention: {tokens:,} tokens of context x {heads} heads x "
            f"({layer.qk_nope_head_dim} key + {layer.v_head_dim} value) x "
            f"{run.element_size} bytes = {format_size(size_bytes)}"
        ),
    )


def _indexer_logits(run: ProfileRun) -> Sized:
    """Return an indexer's largest logits, and the choices that ranks exchange."""
    if not run.release.reserves_indexer_logits or not _indexers(run):
        return NOTHING
    exchanged = 0
    is_divided = run.layout.tensor_parallel_size > 1
    is_whole = run.layout.decode_context_parallel_size == 1
    if run.release.shares_indexer_rows and is_divided and is_whole:
        widths = [layer.index_topk or 0 for layer in _latent_layers(run)]
        rows = 2 * run.max_num_batched_tokens
        exchanged = rows * max(widths, default=0) * _INT32
    size_bytes = _INDEXER_LOGITS + exchanged
    return Sized(
        size_bytes=size_bytes,
        why=(
            f"indexer: {format_size(_INDEXER_LOGITS)} logits + "
            f"{format_size(exchanged)} choices = {format_size(size_bytes)}"
        ),
    )


def _indexer_workspace(run: ProfileRun, indexer: _Indexer) -> Sized:
    """Return room for an indexer's keys, scales and choice of a prefill.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/indexer.py`
    get_max_prefill_buffer_size.
    """
    if not run.release.keeps_indexer_workspace:
        return NOTHING
    rows = run.max_model_len * _LATENT_ROWS_PER_INDEXER_ROW * _prefill_factor(run)
    rows //= indexer.tokens
    keys = _aligned(rows * (indexer.row_bytes - _SCALE_BYTES))
    size_bytes = keys + _aligned(rows * _SCALE_BYTES)
    if run.release.keeps_topk_workspace:
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
    if is_long and run.release.shortens_indexer_workspace:
        return _LONG_PREFILL_FACTOR
    return _PREFILL_FACTOR


def _flashmla(run: ProfileRun, layer: MLALayer, kv_cache_dtype: str) -> Sized:
    """Return what sparse FlashMLA keeps on Hopper: queries, context, outputs."""
    release, is_fp8 = run.release, kv_cache_dtype.startswith("fp8")
    is_served = is_fp8 or not release.prefers_sparse_flash_attention
    is_hopper = run.gpu.compute_capability[0] == HOPPER
    if layer.index_topk is None or not is_hopper or not is_served:
        return NOTHING
    if not release.keeps_indexer_workspace:
        return NOTHING
    tokens, heads = run.max_num_batched_tokens, _heads(run, layer)
    latent, padded = layer.kv_lora_rank, ceil(heads / _FLASHMLA_HEADS) * _FLASHMLA_HEADS
    elements = []
    if release.keeps_flashmla_queries:
        elements.append(tokens * heads * layer.head_size)
    if is_fp8:
        context = run.max_model_len * _prefill_factor(run)
        elements.append(context * layer.head_size)
    if is_fp8 and release.keeps_flashmla_outputs:
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
    """Return FlashInfer's workspace of prefills on B200, for heads it is best at."""
    heads = (layer.qk_nope_head_dim, layer.qk_rope_head_dim, layer.v_head_dim)
    is_b200 = run.gpu.compute_capability[0] == DATACENTER_BLACKWELL
    if not (is_b200 and heads == _RAGGED_HEADS and run.release.prefers_trtllm_ragged):
        return NOTHING
    return Sized(
        size_bytes=run.flashinfer_buffer_bytes,
        why=f"FlashInfer prefill: {format_size(run.flashinfer_buffer_bytes)}",
    )


def _triton_logits(run: ProfileRun, layer: MLALayer) -> Sized:
    """Return what Triton's decode kernel keeps, on GPUs without a better one."""
    has_better = run.gpu.compute_capability[0] in (HOPPER, DATACENTER_BLACKWELL)
    is_kept = run.release.keeps_triton_mla_logits
    if has_better or not is_kept or layer.index_topk is not None:
        return NOTHING
    wanted = max(1, run.max_model_len // _SPLIT_TOKENS)
    most = _SPLITS_PER_SM * (run.gpu.num_sms or run.layout.num_sms)
    splits = min(1 << (wanted - 1).bit_length(), most)
    heads = _heads(run, layer) * run.layout.decode_context_parallel_size
    width = layer.kv_lora_rank + 1
    size_bytes = _aligned(run.max_num_seqs * heads * splits * width * _FLOAT32)
    return Sized(
        size_bytes=size_bytes,
        why=(
            f"Triton MLA: {run.max_num_seqs:,} requests x {heads} heads x {splits} "
            f"splits x {width} x {_FLOAT32} bytes = {format_size(size_bytes)}"
        ),
    )


def _heads(run: ProfileRun, layer: MLALayer) -> int:
    return layer.num_heads // run.layout.tensor_parallel_size


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
