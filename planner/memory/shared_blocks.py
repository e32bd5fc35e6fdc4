"""Weights in blocks that others left: larger than the weights need.

Small ones share segments, to whose end the last belongs. A rotary table is computed in
fp32 while the first layer is built, and kept in the model's dtype. Its parts are freed,
and later weights take their blocks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from planner.engine.dtypes import element_bytes
from planner.engine.layout import ParallelLayout
from planner.memory.allocator import (
    ALLOCATION_UNIT,
    LIMITS_SPLITS,
    UNSPLIT_BYTES,
    Segments,
    allocated_bytes,
    segment_bytes,
)
from planner.models.layers import Module, Part
from planner.units import MIB

_TABLES = ("cos_sin_cache", "self_attn.rotary_emb")
"""The ends of their names, in models that are read and in recorded ones."""
_FP32 = 4


def shared_blocks_bytes(
    modules: Sequence[Module],
    tables: Iterable[Module],
    layout: ParallelLayout,
) -> int:
    """Return what weights of a stage take beyond tensors in blocks that others left.

    Args:
        modules: in the order in which they are built.
        tables: of the stage, some of them rotary.
        layout: the ranks, and the dtype of the parameters.
    """
    if not layout.release.has(LIMITS_SPLITS):
        return 0  # larger blocks are split
    dtype = layout.dtype
    layers = [one for one in modules if one.part is not Part.EMBEDDINGS]
    of_layers = {id(one): one for one in layers}.values()
    beyond = beyond_tables((*tables, *of_layers), layers, layout, dtype)
    return beyond + tails_bytes(modules, layout, dtype)


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
    free = _freed(tables, layout, dtype)
    kept = list(modules) if free else []
    sizes = _sizes(kept, layout, dtype)
    beyond, is_first = 0, True
    for module in kept if any(_fitting(free, *many) for many in sizes.values()) else ():
        is_first = is_first and module.part is Part.ATTENTION
        if is_first:
            continue  # the first layer's attention is built before its table
        for size in sizes[id(module)]:
            fits = _fitting(free, size)
            if fits:
                free.remove(min(fits))
                beyond += min(fits) - allocated_bytes(size, layout.release)
    return beyond


def _fitting(free: Sequence[int], *sizes: int) -> list[int]:
    """Return the free blocks that a weight of one of the sizes takes whole."""
    large = [size for size in sizes if size >= UNSPLIT_BYTES]
    return [b for b in free if any(size <= b < size + UNSPLIT_BYTES for size in large)]


def _sizes(
    modules: Iterable[Module], layout: ParallelLayout, dtype: str
) -> dict[int, list[int]]:
    """Return the tensors of over 1 MiB of each module, by its identity.

    None of what is made anew. Layers of a kind have the same modules, so that each is
    computed once.
    """
    distinct = {id(module): module for module in modules}
    return {
        key: [
            size
            for tensor in (() if is_made_anew(module) else module.tensors(layout))
            if (size := tensor.elements * element_bytes(tensor.dtype or dtype)) > MIB
        ]
        for key, module in distinct.items()
    }


def is_made_anew(module: Module) -> bool:
    """Whether a weight is quantised while it is loaded, in blocks of its own.

    A weight that is repacked takes a block of its size, and leaves one to the next.
    """
    return bool(getattr(getattr(module, "method", None), "loads_unquantised", False))


def _freed(tables: Iterable[Module], layout: ParallelLayout, dtype: str) -> list[int]:
    """Return the free blocks that cannot be split, once all tables are computed."""
    segments = Segments()
    for table in tables:
        if not getattr(table, "name", "").endswith(_TABLES):
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


def tails_bytes(modules: Iterable[Module], layout: ParallelLayout, dtype: str) -> int:
    """Return what smaller weights take of the ends of segments that they share.

    Tensors of 1 to 10 MiB share segments of 20 MiB, and what is left of one is not
    split off where it is 1 MiB or less.

    Source: PyTorch `c10/cuda/CUDACachingAllocator.cpp` get_allocation_size,
    should_split.
    """
    kept = list(modules)
    small = {
        key: [-(-size // ALLOCATION_UNIT) * ALLOCATION_UNIT for size in sizes]
        for key, many in _sizes(kept, layout, dtype).items()
        if (sizes := [size for size in many if size < UNSPLIT_BYTES])
    }
    free: list[int] = []
    beyond = 0
    for module in kept if small else ():
        for size in small.get(id(module), ()):
            at = bisect_left(free, size)
            whole = free.pop(at) if at < len(free) else segment_bytes(size)
            rest = whole - size
            if rest > MIB:
                insort(free, rest)
            beyond += size if rest > MIB else whole
            beyond -= allocated_bytes(size, layout.release)
    return beyond
