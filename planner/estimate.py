"""Composes a rank's lines; they add up to the requested memory, always."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, isqrt

from planner.memory import (
    activations,
    cpu_account,
    cudagraphs,
    frontend,
    non_torch,
    outside,
    persistent,
)
from planner.memory.kv_cache import StageCache
from planner.memory.profile_run import ProfileRun
from planner.memory.weights import StageWeights, explain
from planner.result import Basis, Line, RankMemory
from planner.units import MIB, format_gib, format_size

_REMEMBERED = 256
"""Profile runs; a sweep over lengths and sequences asks for a hundred."""
# Published starts with the same arguments on the same GPU differ by this much.
_REPEATED_BYTES = 160 * MIB
# Starts on one and the same machine differ by less.
_OWN_REPEATED_BYTES = 64 * MIB


def requested_memory_bytes(total_memory_bytes: int, utilization: float) -> int:
    """Return vLLM's budget on one GPU.

    Source: vLLM 0.33.0 `v1/worker/utils.py` request_memory.
    """
    return ceil(total_memory_bytes * utilization)


@lru_cache(maxsize=_REMEMBERED)
def weights_line(
    stage: StageWeights, dtype: str, quantization: str | None = None
) -> Line:
    """Return the line of parameters and buffers, as PyTorch allocates them."""
    return Line(
        name="weights",
        size_bytes=stage.allocated_bytes,
        low_bytes=stage.allocated_bytes,
        high_bytes=stage.allocated_bytes,
        basis=Basis.EXACT,
        why=explain(stage, dtype, quantization),
    )


def used_lines(
    run: ProfileRun,
    stage: StageWeights,
    *,
    is_cudagraph_charged: bool,
) -> tuple[Line, ...]:
    """Return every line but the KV cache."""
    if run.gpu.is_cpu:
        return cpu_account.lines(run, stage)
    weights = weights_line(stage, run.dtype, run.model.quantization)
    # Plans of one batch that differ in their longest request alone share the rest.
    shared = run if run.heeds_length else run.without_length
    lines = _profiled_lines(shared, is_charged=is_cudagraph_charged)
    return (weights, *(_with_buffers(line, stage.prefetch_bytes) for line in lines))


def _with_buffers(line: Line, prefetch_bytes: int) -> Line:
    """Add the buffers of prefetched layers, which are made once all is loaded.

    Source: vLLM 0.33.0 `model_executor/offloader/prefetch.py` StaticBufferPool.
    """
    if line.name != "persistent buffers" or not prefetch_bytes:
        return line
    return replace(
        line,
        size_bytes=line.size_bytes + prefetch_bytes,
        low_bytes=line.low_bytes + prefetch_bytes,
        high_bytes=line.high_bytes + prefetch_bytes,
        why=f"{line.why} + prefetched layers {format_size(prefetch_bytes)}",
    )


@lru_cache(maxsize=_REMEMBERED)
def _profiled_lines(run: ProfileRun, *, is_charged: bool) -> tuple[Line, ...]:
    """Return the lines that a profile run decides, and its graphs."""
    return (
        persistent.line(run),
        activations.line(run),
        non_torch.line(run),
        cudagraphs.line(run, is_charged=is_charged),
        *([frontend.decoding_line(run.decoding_bytes)] if run.decoding_bytes else []),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a rank may use, and how much of it the user fixed for the KV cache."""

    requested_bytes: int
    kv_cache_memory_bytes: int | None
    """None: the KV cache takes what is left."""


def rank_memory(
    run: ProfileRun,
    stage: StageWeights,
    lines: tuple[Line, ...],
    budget: Budget,
    cache: StageCache,
) -> RankMemory:
    """Close the account of a rank with its KV cache.

    Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` determine_available_memory.
    """
    used = sum(line.size_bytes for line in lines)
    if budget.kv_cache_memory_bytes is None:
        closing: tuple[Line, ...] = (_measured_kv(lines, budget.requested_bytes),)
    else:
        closing = _fixed_kv(budget.kv_cache_memory_bytes, budget.requested_bytes - used)
    kv_line = closing[0]
    is_cpu = run.gpu.is_cpu
    return RankMemory(
        pp_rank=run.pp_rank,
        weights_bytes=stage.weights_bytes,
        # A processor's memory is handed out to the byte.
        allocated_weights_bytes=(
            stage.weights_bytes if is_cpu else stage.allocated_bytes
        ),
        requested_memory_bytes=budget.requested_bytes,
        weight_parts=stage.parts,
        lines=(*lines, *closing),
        available_kv_cache_bytes=kv_line.size_bytes,
        available_kv_cache_low_bytes=kv_line.low_bytes,
        available_kv_cache_high_bytes=kv_line.high_bytes,
        bytes_per_block=cache.bytes_per_block,
        set_aside_bytes=cache.available_bytes - cache.usable_bytes,
        captured_graph_bytes=cudagraphs.actual_bytes(run),
        outside=() if is_cpu else _outside(run, lines, cache),
        offloaded=stage.offloaded,
        offloaded_parameter_bytes=stage.offloaded_bytes,
        profile_run=run,
    )


def _outside(
    run: ProfileRun, lines: tuple[Line, ...], cache: StageCache
) -> tuple[Line, ...]:
    graphs = next(line for line in lines if line.name == "CUDA graphs")
    return outside.lines(run, cache.groups, graphs.size_bytes)


def _measured_kv(lines: tuple[Line, ...], requested_bytes: int) -> Line:
    used = sum(line.size_bytes for line in lines)
    above = [line.high_bytes - line.size_bytes for line in lines]
    below = [line.size_bytes - line.low_bytes for line in lines]
    is_own = any(line.record for line in lines if line.name == "peak activation")
    least = _OWN_REPEATED_BYTES if is_own else _REPEATED_BYTES
    others = " - ".join(f"{line.name} {format_size(line.size_bytes)}" for line in lines)
    return Line(
        name="KV cache",
        size_bytes=requested_bytes - used,
        low_bytes=requested_bytes - used - max(_spread(above), least),
        high_bytes=requested_bytes - used + max(_spread(below), least),
        basis=Basis.FORMULA,
        why=(
            f"requested {format_gib(requested_bytes)} - {others} = "
            f"{format_gib(requested_bytes - used)}"
        ),
    )


def _spread(sides_bytes: list[int]) -> int:
    """Return by how much a sum of figures may be off, which err independently."""
    return isqrt(sum(side * side for side in sides_bytes))


def _fixed_kv(kv_bytes: int, left_bytes: int) -> tuple[Line, Line]:
    rest = left_bytes - kv_bytes
    return (
        Line(
            name="KV cache",
            size_bytes=kv_bytes,
            low_bytes=kv_bytes,
            high_bytes=kv_bytes,
            basis=Basis.EXACT,
            why=f"kv_cache_memory_bytes = {kv_bytes:,} bytes, as asked",
        ),
        Line(
            name="not planned",
            size_bytes=rest,
            low_bytes=rest,
            high_bytes=rest,
            basis=Basis.FORMULA,
            why="requested memory that a fixed KV cache leaves to no one"
            if rest >= 0
            else "the fixed KV cache goes beyond the requested memory by this much",
        ),
    )
