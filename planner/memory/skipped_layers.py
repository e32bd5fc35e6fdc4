"""Layers left out of KV cache quantisation, and blocks that suit both kinds.

Source: vLLM 0.33.0 `platforms/interface.py` _align_heterogeneous_kv_block_size;
`layers/quantization/turboquant/config.py` get_boundary_skip_layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.errors import Refused
from planner.memory.backend import AttentionBackend
from planner.memory.cache_context import BlockSizes, CacheContext
from planner.memory.kv_packing import kv_element_bytes, quant_mode
from planner.memory.kv_spec import FullAttentionSpec, MultipleOf
from planner.model import ModelArchitecture

_BOUNDARY_LAYERS = 2


def skipped_layers(
    asked: Sequence[str], kv_cache_dtype: str, model: ModelArchitecture
) -> tuple[str, ...]:
    """Return what to leave out: as asked, and TurboQuant's first and last layers."""
    if not kv_cache_dtype.startswith("turboquant_") or model.state_layers:
        return tuple(asked)
    layers = model.num_hidden_layers
    count = min(_BOUNDARY_LAYERS, layers // 2)
    boundary = (*range(count), *range(layers - count, layers))
    return tuple(sorted({*asked, *map(str, boundary)}))


def suiting_both(
    sizes: BlockSizes, backend: AttentionBackend, context: CacheContext
) -> BlockSizes:
    """Return blocks whose page of packed values holds a block of plain ones.

    Raises:
        Refused: where vLLM stops with an assertion.
    """
    packed = _token_bytes(backend, context, context.kv_cache_dtype)
    plain = _token_bytes(backend, context, "auto")
    if plain < packed:
        raise Refused(
            f"padded-spec per-token page ({plain}B) < primary ({packed}B); a "
            "higher-precision padded spec must not be smaller than the quantized "
            "primary."
        )
    if plain == packed:
        return sizes
    smallest = min(
        size.base if isinstance(size, MultipleOf) else size
        for size in backend.kernel_block_sizes(context)
    )
    step = max(smallest, sizes.block_size)
    required = max(plain * smallest, sizes.mamba_page_size_padded_bytes or 0)
    block_size = max(sizes.block_size, step * -(-required // (step * packed)))
    shared = block_size * packed
    mamba = sizes.mamba_page_size_padded_bytes
    return replace(
        sizes,
        block_size=block_size,
        skip_page_size_padded_bytes=shared,
        mamba_page_size_padded_bytes=None if mamba is None else shared,
    )


def _token_bytes(
    backend: AttentionBackend, context: CacheContext, kv_cache_dtype: str
) -> int:
    """Bytes of one token in one layer as the config declares them."""
    spec = FullAttentionSpec(
        block_size=1,
        num_kv_heads=context.num_kv_heads_per_rank,
        head_size=context.head_size,
        element_bytes=kv_element_bytes(context.dtype, kv_cache_dtype),
        kv_quant_mode=quant_mode(kv_cache_dtype),
    )
    return backend.customize_spec(spec).page_size_bytes


def check_aligned(
    before: int,
    sizes: BlockSizes,
    backends: Sequence[AttentionBackend],
    context: CacheContext,
) -> None:
    """Refuse a block that was enlarged to what a backend does not take.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `platforms/interface.py` _check_aligned_block_size.
    """
    size = sizes.block_size
    rejecting = [b.name for b in backends if not b.supports_block_size(size, context)]
    if size != before and rejecting:
        raise Refused(
            f"Aligned KV cache block size {size} is not supported by attention "
            f"backend(s): {', '.join(rejecting)}."
        )
