"""What vLLM allocates after it has sized the KV cache, outside its budget.

CUDA graphs that a release does not charge, the sampler's warm-up and workspaces of
attention must fit beside `gpu_memory_utilization`. Where they do not, a start fails
although its KV cache was large enough: while graphs are captured, or just after.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isqrt

from planner.engine.gpu import GPU
from planner.memory.estimate import RankMemory
from planner.memory.lines.calibration import error_bytes, non_torch
from planner.memory.lines.outside import CUDA_CONTEXT, NOT_CHARGED, WARM_UP
from planner.planning.defaults import ResolvedSettings
from planner.units import MIB, format_gib
from planner.values import frozen

OUTSIDE_BUDGET = "outside_budget"
"""Kind of the error of a start that fails after its KV cache was sized."""
_SMALLEST_BYTES = 64 * MIB
"""Without more than this after the context, vLLM's first check decides alone."""
_SMALLEST_NAMED_BYTES = 16 * MIB
_DRAWS_DESKTOPS = ("GeForce", "TITAN")
"""In the names of GPUs that are sold to draw a desktop as well."""


@frozen
class Shortage:
    """A rank whose memory outside the budget may not suffice."""

    is_certain: bool
    """Whether it does not suffice even if the estimate is too high."""
    safe_utilization: float
    """The largest gpu_memory_utilization, to two decimals, that leaves enough."""
    message: str


def safe_utilization(total_memory_bytes: int, outside_bytes: int) -> float:
    """Return the largest share, to two decimals, that leaves room outside the budget.

    >>> safe_utilization(80 * 2**30, 3 * 2**30)
    0.96
    """
    share = (total_memory_bytes - outside_bytes) / total_memory_bytes
    return max(0.0, floor(100 * share) / 100)


def shortage(
    gpu: GPU, resolved: ResolvedSettings, ranks: Sequence[RankMemory]
) -> Shortage | None:
    """Return the shortage outside the budget; None where it is expected to suffice.

    A KV cache of a given size leaves what it leaves, whatever the share.
    """
    if gpu.is_cpu or resolved.kv_cache_memory_bytes is not None:
        return None
    rank = max(ranks, key=lambda rank: rank.outside_bytes)
    later = [line for line in rank.outside if line.name != CUDA_CONTEXT]
    if sum(line.size_bytes for line in later) < _SMALLEST_BYTES:
        return None
    taken = gpu.total_memory_bytes - (gpu.free_memory_bytes or gpu.total_memory_bytes)
    margin, others = _margin_bytes(rank), _other_programs_bytes(gpu)
    room = gpu.total_memory_bytes - rank.requested_memory_bytes - taken
    left = room - rank.outside_bytes
    if left >= margin + others:
        return None
    kept = taken + rank.outside_bytes + margin + others
    safe = safe_utilization(gpu.total_memory_bytes, kept)
    is_certain = left < -margin
    message = _message(rank, resolved, room, safe, is_certain=is_certain)
    if others and not is_certain:
        message += (
            f" Other programs on a GPU that draws a desktop took up to "
            f"{format_gib(others)} of it in published starts."
        )
    return Shortage(is_certain=is_certain, safe_utilization=safe, message=message)


def _other_programs_bytes(gpu: GPU) -> int:
    """Return what other programs may hold where it is not known what is free."""
    may_draw = any(word in gpu.device_name for word in _DRAWS_DESKTOPS)
    if gpu.free_memory_bytes is not None or gpu.is_under_wsl or not may_draw:
        return 0
    return non_torch("other programs").high_bytes


def room_note(gpu: GPU, resolved: ResolvedSettings, ranks: Sequence[RankMemory]) -> str:
    """Say which share leaves enough, for a start that requests more than is free."""
    rank = max(ranks, key=lambda rank: rank.outside_bytes)
    room = gpu.total_memory_bytes - rank.requested_memory_bytes
    kept = rank.outside_bytes + _margin_bytes(rank)
    if gpu.is_cpu or kept <= room:
        return ""
    safe = safe_utilization(gpu.total_memory_bytes, kept)
    return f"{_needs(rank, resolved, room)} Use {safe:g} or less."


def _margin_bytes(rank: RankMemory) -> int:
    """Return by how much the estimate of starts that it was not fitted to is off."""
    names = {line.name for line in rank.outside if line.size_bytes}
    errors = [error_bytes("non_torch", CUDA_CONTEXT)]
    if NOT_CHARGED in names:
        errors.append(error_bytes("cudagraphs", "actual"))
    return isqrt(sum(error * error for error in errors))


def _message(
    rank: RankMemory,
    resolved: ResolvedSettings,
    room_bytes: int,
    safe: float,
    *,
    is_certain: bool,
) -> str:
    sizes = {line.name: line.size_bytes for line in rank.outside}
    failing = "a later step"
    if sizes.get(NOT_CHARGED):
        failing = "graph capture"
    elif sizes.get(WARM_UP):
        failing = "the sampler's warm-up"
    verb = "fails" if is_certain else "may fail"
    advice = f"use {safe:g} or less" if safe > 0 else "use a larger GPU"
    return (
        f"The KV cache fits, but {failing} {verb}: {advice}.\n"
        f"{_needs(rank, resolved, room_bytes)} vLLM allocates most of it after it has "
        "sized the KV cache."
    )


def _needs(rank: RankMemory, resolved: ResolvedSettings, room_bytes: int) -> str:
    """Write what is needed outside the budget, and what is left there."""
    needs = ", ".join(
        f"{line.name} {format_gib(line.size_bytes)}"
        for line in rank.outside
        if line.size_bytes >= _SMALLEST_NAMED_BYTES
    )
    return (
        f"gpu_memory_utilization={resolved.gpu_memory_utilization:g} leaves "
        f"{format_gib(max(room_bytes, 0))} outside vLLM's budget, where about "
        f"{format_gib(rank.outside_bytes)} are needed ({needs})."
    )
