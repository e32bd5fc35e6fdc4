"""Memory of latent attention and its indexers beside weights and caches.

Attention itself does not run in the profile run. In its place vLLM temporarily
allocates what the largest prefill would need.
"""

from __future__ import annotations

import re
from math import ceil
from typing import NamedTuple

from planner.engine.releases.change import Change
from planner.memory.account import NOTHING, Sized, larger
from planner.memory.profile_run import ProfileRun, once
from planner.models.caches import (
    CompressedIndexerLayer,
    IndexerCacheLayer,
    MLALayer,
    PooledIndexerLayer,
)
from planner.models.families.compressed_attention import AttentionSinks
from planner.models.layers import ColumnParallelLinear, ReplicatedLinear, TokenBuffer
from planner.units import MIB, format_size

_MOST_CONTEXT_TOKENS = 64 * 1024
_CONTEXT_REQUESTS = 8
_CONTEXT_BLOCKS = 4
_SCALE_BYTES = 4
_INDEXER_LOGITS = 512 * MIB
"""The default of VLLM_SPARSE_INDEXER_MAX_LOGITS_MB."""
_INT32 = 4
_IS_OWN, _LATENT = "self_attn.", "self_attn.fused_qkv_a_proj"
_QUERIES, _INDEX_QUERIES = "self_attn.q_b_proj", "self_attn.indexer.wq_b"
_DOWN = re.compile(r"self_attn\..*_a_proj")
_INDEX_KEYS = "self_attn.indexer.wk_weights_proj"
_RESERVES_LATENT_CONTEXT = Change(
    since=(0, 11),
    what="The profile run of MLA allocates keys and values of a chunk of context.",
    source="vLLM 0.11.0 `v1/attention/backends/mla/common.py` (dummy run)",
)
_RESERVES_SPARSE_LATENT_CONTEXT = Change(
    since=(0, 16),
    what="The profile run of sparse MLA allocates keys and values of a chunk too.",
    source="vLLM 0.16.0 `layers/attention/mla_attention.py` MLAAttention",
)
_LEAVES_OUT_INDEXED_CONTEXT = Change(
    since=(0, 29),
    what=(
        "DeepSeek V3.2 and GLM-5 have a class of their own, whose attention allocates "
        "nothing in the profile run."
    ),
    source=(
        "vLLM 0.29.0 `models/registry.py` (DeepseekV32ForCausalLM, 0.28.0: "
        "deepseek_v2), `models/deepseek_v32/attention.py` forward (attn_metadata None)"
    ),
)
_OF_OWN_CLASS = ("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")
_ALIGNS_LATENT_CONTEXT = Change(
    since=(0, 28),
    what="MLA's chunk of context is whole blocks, not at least one per request.",
    source=(
        "vLLM 0.28.0 `layers/attention/mla_attention.py` "
        "align_mla_chunked_context_workspace_size"
    ),
)
_RESERVES_INDEXER_LOGITS = Change(
    since=(0, 19),
    what="The profile run allocates an indexer's largest logits.",
    source="vLLM 0.19.0 `layers/sparse_attn_indexer.py`",
)
_SHARES_INDEXER_ROWS = Change(
    since=(0, 32),
    what="Each rank's indexer selects tokens for some rows; ranks exchange them.",
    source=(
        "vLLM 0.32.0 `layers/sparse_attn_indexer.py` "
        "_reserve_row_shard_exchange_transient"
    ),
)


class Indexer(NamedTuple):
    """An indexer's keys: bytes of a key, and the tokens that it represents."""

    row_bytes: int
    tokens: int


@once
def latent_context(run: ProfileRun) -> Sized:
    """Return what the profile run allocates temporarily in place of attention.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py` MLAAttention (dummy run),
    `layers/sparse_attn_indexer.py`.
    """
    context = [_context(run, layer) for layer in latent_layers(run)]
    compressed = [_compressed(run, layer) for layer in _compressed_layers(run)]
    return larger([*context, *compressed, _indexer_logits(run)])


def latent_context_bytes(run: ProfileRun) -> int:
    """Return the bytes of `latent_context`."""
    return latent_context(run).size_bytes


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
    if not run.release.has(_ALIGNS_LATENT_CONTEXT):
        return max(tokens, run.max_num_seqs * run.block_size)
    return ceil(max(tokens, run.block_size) / run.block_size) * run.block_size


def has_latent_layers(run: ProfileRun) -> bool:
    """Return whether a rank's attention is latent (MLA)."""
    return bool(latent_layers(run))


@once
def latent_layers(run: ProfileRun) -> tuple[MLALayer, ...]:
    """Return the kinds of latent attention (MLA) that a model has."""
    found = (
        cache
        for kind in run.model.layer_kinds
        for cache in kind.caches
        if isinstance(cache, MLALayer)
    )
    return tuple(dict.fromkeys(found))


@once
def indexers(run: ProfileRun) -> tuple[Indexer, ...]:
    """Return the kinds of indexers that a model has."""
    found: dict[Indexer, None] = {}
    for kind in run.model.layer_kinds:
        for cache in kind.caches:
            if isinstance(cache, IndexerCacheLayer):
                found[Indexer(cache.row_bytes, 1)] = None
            elif isinstance(cache, CompressedIndexerLayer):
                row_bytes = cache.head_size + _SCALE_BYTES
                found[Indexer(row_bytes, cache.compress_ratio)] = None
            elif isinstance(cache, PooledIndexerLayer):
                found[Indexer(cache.row_bytes, cache.tokens_per_state)] = None
    return tuple(found)


def has_own_attention(run: ProfileRun) -> bool:
    """Whether an indexed model's attention is a class of its own, without context."""
    is_own = run.model.architecture in _OF_OWN_CLASS
    return is_own and run.release.has(_LEAVES_OUT_INDEXED_CONTEXT)


def _context(run: ProfileRun, layer: MLALayer) -> Sized:
    """Return the keys and values expanded from a chunk of latent vectors."""
    is_sparse = layer.index_topk is not None
    release = run.release
    if is_sparse and not release.has(_RESERVES_SPARSE_LATENT_CONTEXT):
        return NOTHING
    if not release.has(_RESERVES_LATENT_CONTEXT):
        return NOTHING
    if has_own_attention(run):
        return NOTHING
    tokens, heads = context_tokens(run), heads_on_rank(run, layer)
    width = layer.qk_nope_head_dim + layer.v_head_dim
    size_bytes = tokens * heads * width * run.element_size
    # Compiled, the output is counted as attention's, and queries are not counted.
    beside = 0
    if not run.compiles:
        of_heads = heads * (layer.qk_rope_head_dim + width)
        of_all = _latent_width(run) if run.model.residual_streams == 1 else 0
        beside = run.max_num_batched_tokens * run.element_size * (of_heads + of_all)
    queries = f" + queries, latent vectors and output {format_size(beside)}"
    queries = queries if beside else ""
    return Sized(
        size_bytes=size_bytes + beside,
        why=(
            f"latent attention: {tokens:,} tokens of context x {heads} heads x "
            f"({layer.qk_nope_head_dim} key + {layer.v_head_dim} value) x "
            f"{run.element_size} bytes = {format_size(size_bytes)}{queries}"
        ),
    )


def _latent_width(run: ProfileRun) -> int:
    """Return the values per token of latent vectors, before and after their norms.

    The part with positions has no norm.

    Source: vLLM 0.33.0 `layers/mla.py` forward; traced dry runs of
    DeepSeek-Coder-V2-Lite on two ranks and DeepSeek-V3 on four.
    """
    widths = [0]
    for kind in run.model.layer_kinds:
        down = [
            sum(module.output_sizes)
            for module in kind.modules
            if isinstance(module, ReplicatedLinear) and _DOWN.search(module.name)
        ]
        rotated = [c.qk_rope_head_dim for c in kind.caches if isinstance(c, MLALayer)]
        widths += [2 * sum(down) - one for one in rotated]
    return max(widths)


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
    if not run.release.has(_RESERVES_INDEXER_LOGITS) or not indexers(run):
        return NOTHING
    exchanged = 0
    is_divided = run.layout.tensor_parallel_size > 1
    is_whole = run.layout.decode_context_parallel_size == 1
    if run.release.has(_SHARES_INDEXER_ROWS) and is_divided and is_whole:
        widths = [layer.index_topk or 0 for layer in latent_layers(run)]
        widths += [
            module.columns
            for module in run.model.every_stage
            if isinstance(module, TokenBuffer)
            and module.name.endswith("topk_indices_buffer")
        ]
        rows = 2 * run.max_num_batched_tokens
        exchanged = rows * max(widths, default=0) * _INT32
    inputs = _own_inputs(run) if has_own_attention(run) else _pooled_inputs_bytes(run)
    size_bytes = _INDEXER_LOGITS + exchanged + inputs
    named = f" + {format_size(inputs)} queries and keys" if inputs else ""
    return Sized(
        size_bytes=size_bytes,
        why=(
            f"indexer: {format_size(_INDEXER_LOGITS)} logits + "
            f"{format_size(exchanged)} choices{named} = {format_size(size_bytes)}"
        ),
    )


def _own_inputs(run: ProfileRun) -> int:
    """Return the bytes that attention has projected when its indexer runs.

    Queries, keys and values with few dimensions, before and after their norms; on a
    rank's heads the queries as they are, multiplied by the keys' weights, and rotated,
    and the output; the indexer's queries, in FP8 as well, its keys and weights.

    Source: vLLM 0.33.0 `models/deepseek_v32/attention.py` forward,
    `common/kernels.py` fused_q; a traced dry run of DeepSeek-V3.2-Exp on eight ranks.
    """
    values = 0
    for kind in run.model.layer_kinds:
        sizes = {
            m.name: m.output_sizes
            for m in kind.modules
            if isinstance(m, ReplicatedLinear)
        }
        for layer in kind.caches:
            if not isinstance(layer, MLALayer) or _INDEX_QUERIES not in sizes:
                continue
            queries, (dims, index_heads) = sizes[_INDEX_QUERIES], sizes[_INDEX_KEYS]
            of_head = layer.qk_nope_head_dim + 2 * layer.qk_rope_head_dim
            of_head += layer.kv_lora_rank + layer.v_head_dim
            fp32 = index_heads * _SCALE_BYTES // run.element_size
            of_indexer = sum(queries) + sum(queries) // run.element_size + fp32
            of_indexer += dims + index_heads
            of_heads = heads_on_rank(run, layer) * of_head
            values = max(values, 2 * sum(sizes[_LATENT]) + of_heads + of_indexer)
    return run.max_num_batched_tokens * values * run.element_size


def _pooled_inputs_bytes(run: ProfileRun) -> int:
    """Return what attention has projected when GLM-5.3-Flash's indexer runs.

    Attention's queries and keys before and after their norms, and on a rank's heads;
    the indexer's, its queries in FP8 as well. Other indexers run without attention, or
    were not traced.

    Source: vLLM 0.33.0 `layers/mla.py` forward, `models/glm5next/common/attention.py`
    Glm5NextIndexer.forward; a traced dry run of GLM-5.3-Flash on eight ranks.
    """
    ranks = run.layout.tensor_parallel_size
    values = 0
    for kind in run.model.layer_kinds:
        if not any(isinstance(cache, PooledIndexerLayer) for cache in kind.caches):
            continue
        whole = {m.name: m for m in kind.modules if isinstance(m, ReplicatedLinear)}
        divided = (m for m in kind.modules if isinstance(m, ColumnParallelLinear))
        of_heads = sum(sum(m.output_sizes) for m in divided if m.name == _QUERIES)
        of_attention = sum(
            sum(m.output_sizes) for name, m in whole.items() if _IS_OWN in name
        )
        normed = sum(whole[_LATENT].output_sizes)
        in_fp8 = sum(whole[_INDEX_QUERIES].output_sizes) // run.element_size
        values = max(values, of_attention + normed + in_fp8 + of_heads // ranks)
    return run.max_num_batched_tokens * values * run.element_size


def heads_on_rank(run: ProfileRun, layer: MLALayer) -> int:
    """Return a rank's heads of latent attention."""
    return layer.num_heads // run.layout.tensor_parallel_size
