"""Weights in blocks that rotary tables left: larger than the weights need.

A table is computed in fp32 while the first layer is built, and kept in the model's
dtype. Its parts are freed, and later weights take their blocks.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.engine.dtypes import element_bytes
from planner.engine.layout import ParallelLayout
from planner.memory.allocator import (
    LIMITS_SPLITS,
    UNSPLIT_BYTES,
    Segments,
    allocated_bytes,
)
from planner.models.layers import Module, Part
from planner.models.quantization.compressed_schemes import Fp8Linear
from planner.models.quantization.fp8 import Fp8BlockLinear, Fp8TensorLinear

_AS_LOADED = (Fp8BlockLinear, Fp8Linear, Fp8TensorLinear)
"""Formats whose weights stay in the blocks in which they are loaded."""
_TABLE = "cos_sin_cache"
_FP32 = 4


def beyond_tables(
    tables: Iterable[Module],
    modules: Iterable[Module],
    layout: ParallelLayout,
    dtype: str,
) -> int:
    """Return what weights take beyond their own segments in blocks of freed tables.

    Args:
        tables: of the stage, some of them rotary.
        modules: of its layers and its head, in the order in which they are built.
        layout: the ranks.
        dtype: of the parameters.

    Source: vLLM 0.33.0 `layers/rotary_embedding/base.py` and `yarn_scaling_rope.py`
    _compute_cos_sin_cache; PyTorch `c10/cuda/CUDACachingAllocator.cpp` get_free_block.
    """
    if not layout.release.has(LIMITS_SPLITS):
        return 0  # larger blocks are split
    free = _freed(tables, layout, dtype)
    beyond, is_first = 0, True
    for module in modules if free else ():
        is_first = is_first and module.part is Part.ATTENTION
        if is_first or not _stays(module):
            continue  # the first layer's attention is built before its table
        for tensor in module.tensors(layout):
            size = tensor.elements * element_bytes(tensor.dtype or dtype)
            fits = [b for b in free if size <= b < size + UNSPLIT_BYTES]
            if size >= UNSPLIT_BYTES and fits:
                free.remove(min(fits))
                beyond += min(fits) - allocated_bytes(size, layout.release)
    return beyond


def _stays(module: Module) -> bool:
    method = getattr(module, "method", None)
    is_quantised_later = getattr(method, "loads_unquantised", False)
    return method is None or (isinstance(method, _AS_LOADED) and not is_quantised_later)


def _freed(tables: Iterable[Module], layout: ParallelLayout, dtype: str) -> list[int]:
    """Return the free blocks that cannot be split, once all tables are computed."""
    segments = Segments()
    for table in tables:
        if not getattr(table, "name", "").endswith(_TABLE):
            continue
        is_scaled = getattr(table, "is_scaled", False)
        for tensor in table.tensors(layout):
            kept = tensor.dtype or dtype
            _compute(segments, tensor.elements, kept, is_scaled=is_scaled)
    blocks = (block for segment in segments.segments for block in segment)
    return [
        b.size_bytes for b in blocks if not b.is_used and b.size_bytes >= UNSPLIT_BYTES
    ]


def _compute(segments: Segments, elements: int, dtype: str, *, is_scaled: bool) -> None:
    """Allocate a table's angles, cosines and sines, join them and free all parts."""
    half = elements // 2 * _FP32
    parts = [segments.allocate(half)]
    for _cosines_then_sines in range(2):
        parts.append(segments.allocate(half))
        if is_scaled:
            parts.append(segments.allocate(half))
            segments.release(parts.pop(-2))
    joined = segments.allocate(2 * half)
    for part in parts:
        segments.release(part)
    if element_bytes(dtype) != _FP32:
        segments.allocate(elements * element_bytes(dtype))
        segments.release(joined)
