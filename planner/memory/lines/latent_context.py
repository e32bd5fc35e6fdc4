"""Memory of latent attention and its indexers beside weights and caches.

Attention itself does not run in the profile run. In its place vLLM temporarily
allocates what the largest prefill would need, and reserves room in the workspace that
experts use too: the two share it, so that the larger need counts, not the sum.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from planner.engine.layout import DATACENTER_BLACKWELL, HOPPER
from planner.memory.account import NOTHING, Sized, larger
from planner.memory.lines.expert_workspace import expert_workspace
from planner.memory.profile_run import ProfileRun, once
from planner.models.caches import (
    CompressedIndexerLayer,
    IndexerCacheLayer,
    MLALayer,
    PooledIndexerLayer,
)
from planner.models.families.compressed_attention import AttentionSinks
from planner.models.layers import TokenBuffer
from planner.units import MIB, format_size

_MOST_CONTEXT_TOKENS = 64 * 1024
_CONTEXT_REQUESTS = 8
_CONTEXT_BLOCKS = 4
_ALIGNMENT = 256
_SCALE_BYTES = 4
_TOPK_WORKSPACE = MIB
_INDEXER_LOGITS = 512 * MIB
"""The default of VLLM_SPARSE_INDEXER_MAX_LOGITS_MB."""
_RAGGED_HEADS = (192, 64, 256)
_PREFILL_FACTOR, _LONG_PREFILL_FACTOR = 5, 2
_LONG_CONTEXT = 256 * 1024
_LATENT_ROWS_PER_INDEXER_ROW = 8
"""A latent row of 576 x 2 bytes has room for so many indexer rows of 132 bytes."""
_FLASHMLA_HEADS = 64
_INT32 = _FLOAT32 = 4
_SPLIT_TOKENS, _SPLITS_PER_SM = 512, 2
_RESERVES_LATENT_CONTEXT_SINCE = (0, 11)
"""The profile run allocates the keys and values of a chunk of context.

Source: vLLM 0.11.0 `v1/attention/backends/mla/common.py` (dummy run).
"""
_RESERVES_SPARSE_LATENT_CONTEXT_SINCE = (0, 16)
"""It does so for sparse layers, too.

Source: vLLM 0.16.0 `layers/attention/mla_attention.py` MLAAttention.
"""
_ALIGNS_LATENT_CONTEXT_SINCE = (0, 28)
"""That chunk is a number of whole blocks, not at least one block per request.

Source: vLLM 0.28.0 `layers/attention/mla_attention.py`
align_mla_chunked_context_workspace_size.
"""
_KEEPS_INDEXER_WORKSPACE_SINCE = (0, 13)
"""The shared workspace has room for an indexer's keys of a prefill.

Source: vLLM 0.13.0 `models/deepseek_v2.py` sparse_attn_indexer.
"""
_KEEPS_TOPK_WORKSPACE_SINCE = (0, 20)
"""The shared workspace has room for the indexer's top-k selection as well.

Source: vLLM 0.20.0 `layers/sparse_attn_indexer.py` RADIX_TOPK_WORKSPACE_SIZE.
"""
_SHORTENS_INDEXER_WORKSPACE_SINCE = (0, 32)
"""The shared workspace has less room for very long contexts.

Source: vLLM 0.32.0 `config/vllm.py` sparse_mla_prefill_workspace_factor.
"""
_RESERVES_INDEXER_LOGITS_SINCE = (0, 19)
"""The profile run allocates an indexer's largest logits.

Source: vLLM 0.19.0 `layers/sparse_attn_indexer.py`.
"""
_SHARES_INDEXER_ROWS_SINCE = (0, 32)
"""Each rank selects tokens for some of the rows, and the ranks exchange them.

Source: vLLM 0.32.0 `layers/sparse_attn_indexer.py`
_reserve_row_shard_exchange_transient.
"""
_KEEPS_FLASHMLA_QUERIES_SINCE = (0, 18)
"""Sparse FlashMLA's queries are in the shared workspace.

Source: vLLM 0.18.0 `v1/attention/backends/mla/flashmla_sparse.py`.
"""
_PREFERS_SPARSE_FLASH_ATTENTION_SINCE = (0, 25)
"""Hopper uses FlashAttention for sparse attention, unless the cache is quantised.

Source: vLLM 0.25.0 `platforms/cuda.py` _get_backend_priorities.
"""
_KEEPS_FLASHMLA_OUTPUTS_SINCE = (0, 31)
"""Padded queries and outputs of a quantised cache are in the shared workspace.

Source: vLLM 0.31.0 `v1/attention/backends/mla/flashmla_sparse.py`.
"""
_KEEPS_TRITON_MLA_LOGITS_SINCE = (0, 33)
"""The profile run allocates the buffers of Triton's decode kernel.

Source: vLLM 0.33.0 `v1/attention/backends/mla/triton_mla.py`
reserve_workspace.
"""
_PREFERS_TRTLLM_RAGGED_SINCE = (0, 22)
"""B200 uses FlashInfer's prefill for heads of 192 + 64 and 256.

FlashAttention 4 lacks them, and from 0.27 on FlashInfer is asked first.

Source: vLLM 0.22.1 and 0.26.0 `v1/attention/backends/mla/prefill/flash_attn.py`
supports_mla_dimensions; 0.27.0 `selector.py` of the same folder.
"""


class _Indexer(NamedTuple):
    """An indexer's keys: bytes of a key, and the tokens that it represents."""

    row_bytes: int
    tokens: int


@once
def latent_context(run: ProfileRun) -> Sized:
    """Return what the profile run allocates temporarily in place of attention.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py` MLAAttention (dummy run),
    `layers/sparse_attn_indexer.py`.
    """
    context = [_context(run, layer) for layer in _latent_layers(run)]
    compressed = [_compressed(run, layer) for layer in _compressed_layers(run)]
    return larger([*context, *compressed, _indexer_logits(run)])


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
    """Return the workspace that experts and latent attention share: the larger need.

    Source: vLLM 0.33.0 `v1/worker/workspace.py` WorkspaceManager.
    """
    latent = latent_workspace(run, kv_cache_dtype=kv_cache_dtype)
    return larger([expert_workspace(run), latent])


def context_tokens(run: ProfileRun) -> int:
    """Return the tokens of context whose keys and values are expanded at once.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py`
    determine_chunked_prefill_workspace_size.
    """
    wanted = max(
        _CONTEXT_REQUESTS * run.max_model_len,
        _CONTEXT_BLOCKS * run.max_num_seqs * run.block_size,
    )
    tokens = min(wanted, _MOST_CONTEXT_TOKENS)
    if run.release < _ALIGNS_LATENT_CONTEXT_SINCE:
        return max(tokens, run.max_num_seqs * run.block_size)
    return ceil(max(tokens, run.block_size) / run.block_size) * run.block_size


def has_latent_layers(run: ProfileRun) -> bool:
    """Return whether a rank's attention is latent (MLA)."""
    return bool(_latent_layers(run))


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
    """Return the keys and values expanded from a chunk of latent vectors."""
    is_sparse = layer.index_topk is not None
    release = run.release
    if is_sparse and release < _RESERVES_SPARSE_LATENT_CONTEXT_SINCE:
        return NOTHING
    if release < _RESERVES_LATENT_CONTEXT_SINCE:
        return NOTHING
    tokens, heads = context_tokens(run), _heads(run, layer)
    width = layer.qk_nope_head_dim + layer.v_head_dim
    size_bytes = tokens * heads * width * run.element_size
    # Compiled, the output is counted as attention's, and queries are not counted.
    beside = 0
    if not run.compiles:
        step = run.max_num_batched_tokens * heads * run.element_size
        beside = step * (layer.qk_rope_head_dim + width)
    queries = f" + queries and output {format_size(beside)}" if beside else ""
    return Sized(
        size_bytes=size_bytes + beside,
        why=(
            f"latent attention: {tokens:,} tokens of context x {heads} heads x "
            f"({layer.qk_nope_head_dim} key + {layer.v_head_dim} value) x "
            f"{run.element_size} bytes = {format_size(size_bytes)}{queries}"
        ),
    )


@once
def _compressed_layers(run: ProfileRun) -> tuple[AttentionSinks, ...]:
    kinds = run.model.layer_kinds
    modules = (module for kind in kinds for module in kind.modules)
    return tuple({one: None for one in modules if isinstance(one, AttentionSinks)})


def _compressed(run: ProfileRun, layer: AttentionSinks) -> Sized:
    """Return what DeepSeek-V4's attention holds, with its indexer's logits."""
    each = layer.bytes_per_token(run.layout)
    logits = _indexer_logits(run).size_bytes if layer.is_indexed else 0
    size_bytes = run.max_num_batched_tokens * each + logits
    return Sized(
        size_bytes=size_bytes,
        why=(
            f"attention: {run.max_num_batched_tokens:,} tokens x {each:,} bytes "
            f"({layer.padded_heads(run.layout)} padded heads) + indexer "
            f"{format_size(logits)} = {format_size(size_bytes)}"
        ),
    )


def _indexer_logits(run: ProfileRun) -> Sized:
    """Return an indexer's largest logits, and the selections that ranks exchange."""
    if run.release < _RESERVES_INDEXER_LOGITS_SINCE or not _indexers(run):
        return NOTHING
    exchanged = 0
    is_divided = run.layout.tensor_parallel_size > 1
    is_whole = run.layout.decode_context_parallel_size == 1
    if run.release >= _SHARES_INDEXER_ROWS_SINCE and is_divided and is_whole:
        widths = [layer.index_topk or 0 for layer in _latent_layers(run)]
        widths += [
            module.columns
            for module in run.model.every_stage
            if isinstance(module, TokenBuffer)
            and module.name.endswith("topk_indices_buffer")
        ]
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
    """Return the room for an indexer's keys, scales and top-k selection of a prefill.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/indexer.py`
    get_max_prefill_buffer_size.
    """
    if run.release < _KEEPS_INDEXER_WORKSPACE_SINCE:
        return NOTHING
    rows = run.max_model_len * _LATENT_ROWS_PER_INDEXER_ROW * _prefill_factor(run)
    rows //= indexer.tokens
    keys = _aligned(rows * (indexer.row_bytes - _SCALE_BYTES))
    size_bytes = keys + _aligned(rows * _SCALE_BYTES)
    if run.release >= _KEEPS_TOPK_WORKSPACE_SINCE:
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
    if is_long and run.release >= _SHORTENS_INDEXER_WORKSPACE_SINCE:
        return _LONG_PREFILL_FACTOR
    return _PREFILL_FACTOR


def _flashmla(run: ProfileRun, layer: MLALayer, kv_cache_dtype: str) -> Sized:
    """Return the buffers of sparse FlashMLA on Hopper: queries, context, outputs."""
    release, is_fp8 = run.release, kv_cache_dtype.startswith("fp8")
    is_served = is_fp8 or release < _PREFERS_SPARSE_FLASH_ATTENTION_SINCE
    is_hopper = run.gpu.compute_capability[0] == HOPPER
    if layer.index_topk is None or not is_hopper or not is_served:
        return NOTHING
    if release < _KEEPS_INDEXER_WORKSPACE_SINCE:
        return NOTHING
    tokens, heads = run.max_num_batched_tokens, _heads(run, layer)
    latent, padded = layer.kv_lora_rank, ceil(heads / _FLASHMLA_HEADS) * _FLASHMLA_HEADS
    elements = []
    if release >= _KEEPS_FLASHMLA_QUERIES_SINCE:
        elements.append(tokens * heads * layer.head_size)
    if is_fp8:
        context = run.max_model_len * _prefill_factor(run)
        elements.append(context * layer.head_size)
    if is_fp8 and release >= _KEEPS_FLASHMLA_OUTPUTS_SINCE:
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
    is_b200 = run.gpu.compute_capability[0] == DATACENTER_BLACKWELL
    is_preferred = run.release >= _PREFERS_TRTLLM_RAGGED_SINCE
    if not (is_b200 and heads == _RAGGED_HEADS and is_preferred):
        return NOTHING
    return Sized(
        size_bytes=run.flashinfer_buffer_bytes,
        why=f"FlashInfer prefill: {format_size(run.flashinfer_buffer_bytes)}",
    )


def _triton_logits(run: ProfileRun, layer: MLALayer) -> Sized:
    """Return the logits of Triton's decode kernel, on GPUs without a better kernel."""
    has_better = run.gpu.compute_capability[0] in (HOPPER, DATACENTER_BLACKWELL)
    is_kept = run.release >= _KEEPS_TRITON_MLA_LOGITS_SINCE
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
