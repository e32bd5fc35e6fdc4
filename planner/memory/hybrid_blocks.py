"""The size of blocks where attention shares its blocks with layers that keep states.

Source: vLLM 0.33.0 `platforms/interface.py` _align_hybrid_block_size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm

from planner.memory.backend import AttentionBackend
from planner.memory.cache_context import BlockSizes, CacheContext
from planner.memory.cpu_attention import FIRST_STATE_BLOCK_SIZE
from planner.memory.kv_spec import MultipleOf
from planner.memory.mamba_caches import (
    cache_mode,
    checkpoint_alignment,
    first_mamba_block_size,
    state_bytes,
)
from planner.memory.mamba_spec import ALIGN
from planner.parallel import DATACENTER_BLACKWELL
from planner.states import StateLayer

_WIDE_HEAD = 256


def aligned(
    sizes: BlockSizes,
    layers: Sequence[StateLayer],
    backends: Sequence[AttentionBackend],
    token_bytes: int,
    context: CacheContext,
) -> BlockSizes:
    """Return sizes with which a page of attention is as large as the states of a layer.

    Args:
        sizes: as the attention backends prefer or the user asked.
        layers: those with states.
        backends: of attention; without any, nothing is aligned.
        token_bytes: page of one attention layer for one token.
        context: the deployment.

    Source: vLLM 0.33.0 `platforms/interface.py` _align_hybrid_block_size.
    """
    alignment = checkpoint_alignment(layers, context)
    # The CPU build settles the size of blocks after that of states.
    first = FIRST_STATE_BLOCK_SIZE if context.gpu.is_cpu else sizes.block_size
    sizes = replace(
        sizes,
        mamba_block_size=first_mamba_block_size(context, first),
        has_prefill_checkpoints=alignment is not None,
    )
    page_bytes = max((sum(state_bytes(la, context)) for la in layers), default=0)
    if not backends or not page_bytes:
        return sizes
    if context.layout.release.aligns_by_backend:
        step = _block_alignment(sizes.block_size, backends, context, alignment)
        block_size = step * -(-page_bytes // (step * token_bytes))
        step = lcm(*_smallest_blocks(backends, context))
        block_size = step * -(-block_size // step)
    else:
        step = _fixed_alignment(backends[0], context)
        block_size = step * -(-page_bytes // (step * token_bytes))
    block_size = max(sizes.block_size, block_size)
    attention_bytes = block_size * token_bytes
    is_aligned = cache_mode(context) == ALIGN
    return replace(
        sizes,
        block_size=block_size,
        mamba_block_size=block_size if is_aligned else sizes.mamba_block_size,
        mamba_page_size_padded_bytes=(
            None if attention_bytes == page_bytes else attention_bytes
        ),
    )


def _block_alignment(
    block_size: int,
    backends: Sequence[AttentionBackend],
    context: CacheContext,
    checkpoints: int | None,
) -> int:
    """Return the tokens of which blocks of attention are a multiple."""
    step = max(_smallest_blocks(backends[:1], context)[0], block_size)
    if backends[0].is_mla:
        step = max(step, context.layout.release.latent_hybrid_step)
    return lcm(step, checkpoints or 1)


def _fixed_alignment(backend: AttentionBackend, context: CacheContext) -> int:
    """Return the same where it does not depend on what the backend takes.

    Source: vLLM 0.11.0, 0.17.1 and 0.19.1 `models/config.py`
    HybridAttentionMambaModelConfig.
    """
    release = context.layout.release
    if backend.is_mla:
        return release.latent_hybrid_step
    is_wide = context.head_size == _WIDE_HEAD and context.major == DATACENTER_BLACKWELL
    return 32 if is_wide and release.aligns_wide_heads else 16


def _smallest_blocks(
    backends: Sequence[AttentionBackend], context: CacheContext
) -> list[int]:
    return [
        min(s.base if isinstance(s, MultipleOf) else s for s in found)
        for found in (b.kernel_block_sizes(context) for b in backends)
        if found
    ]
