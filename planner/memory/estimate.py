"""Combines a rank's lines, which always add up to the requested memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import lru_cache
from math import ceil, isqrt
from typing import TYPE_CHECKING

from planner.memory.account import Basis, Line, Variant, WeightPart, line_of
from planner.memory.kv_cache.capacity import StageCache
from planner.memory.kv_cache.layer_tuples import UNREAD_BYTES, is_unread
from planner.memory.lines import activations, cudagraphs, non_torch, outside, persistent
from planner.memory.media import frontend
from planner.memory.profile_run import ProfileRun
from planner.memory.weights import StageWeights, explain
from planner.units import MIB, format_gib, format_size
from planner.values import frozen

if TYPE_CHECKING:
    from planner.memory.account import HostLine
    from planner.models.architecture import ModelArchitecture

_REMEMBERED = 256
"""Profile runs; a sweep over lengths and sequences needs about a hundred."""
# By how much published starts with the same arguments on the same GPU differ.
_REPEATED_BYTES = 160 * MIB
# Starts on the same machine differ by less.
_OWN_REPEATED_BYTES = 64 * MIB


@frozen
class RankMemory:
    """The memory account of a pipeline stage; its tensor-parallel ranks are alike."""

    pp_rank: int
    weights_bytes: int
    allocated_weights_bytes: int
    requested_memory_bytes: int
    weight_parts: tuple[WeightPart, ...]
    lines: tuple[Line, ...]
    """They add up to `requested_memory_bytes`; the KV cache line may be negative."""
    available_kv_cache_bytes: int
    available_kv_cache_low_bytes: int
    available_kv_cache_high_bytes: int
    bytes_per_block: int
    set_aside_bytes: int = 0
    """vLLM's null block, where the release excludes it from the check."""
    captured_graph_bytes: int = 0
    """Memory of the captured CUDA graphs, however much of it is charged."""
    outside: tuple[Line, ...] = ()
    """Memory that is allocated outside the budget."""
    offloaded: HostLine | None = None
    """Parameters in CPU memory, in none of the lines; None: all are on the GPU."""
    offloaded_parameter_bytes: int = 0
    """Their own bytes, without the overhead of pinning."""
    variants: tuple[Variant, ...] = ()
    """What the peak is otherwise, where the KV cache takes what is left."""
    profile_run: ProfileRun | None = field(default=None, compare=False, repr=False)
    """The profile run from which the lines were computed."""

    @property
    def outside_bytes(self) -> int:
        """Memory that must fit beside the budget."""
        return sum(line.size_bytes for line in self.outside)

    @property
    def num_blocks(self) -> int:
        """KV cache blocks that fit on this rank."""
        if not self.bytes_per_block:
            return 1
        return max(self.available_kv_cache_bytes, 0) // self.bytes_per_block

    def of(self, argument: str, value: str) -> tuple[int, int, int]:
        """Return the KV cache of a variant: its size, low end and high end."""
        more = next(
            (
                one.more_bytes
                for one in self.variants
                if (one.argument, one.value) == (argument, value)
            ),
            0,
        )
        low = self.available_kv_cache_low_bytes + open_bytes(self.variants)
        return (
            self.available_kv_cache_bytes - more,
            low - more,
            self.available_kv_cache_high_bytes - more,
        )

    def line(self, name: str) -> Line:
        """Return the line called `name`.

        Raises:
            KeyError: when this rank has no such line.
        """
        for line in self.lines:
            if line.name == name:
                return line
        raise KeyError(name)


def open_bytes(variants: Sequence[Variant]) -> int:
    """Return how much less may be left where the user has not said which it is."""
    return max((one.more_bytes for one in variants if one.is_open), default=0)


def requested_memory_bytes(total_memory_bytes: int, utilization: float) -> int:
    """Return vLLM's budget on one GPU.

    Source: vLLM 0.33.0 `v1/worker/utils.py` request_memory.
    """
    return ceil(total_memory_bytes * utilization)


def config_basis(model: ModelArchitecture) -> Basis:
    """Return how bytes are known that follow from a model's config.

    Exact only for a published config.json as it stands: one of the same shape makes
    them a conclusion, a reconstruction an assumption.
    """
    if model.is_certain:
        return Basis.EXACT
    return Basis.FORMULA if model.shape_of else Basis.ASSUMED


@lru_cache(maxsize=_REMEMBERED)
def weights_line(
    stage: StageWeights,
    dtype: str,
    quantization: str | None = None,
    basis: Basis = Basis.EXACT,
) -> Line:
    """Return the line of parameters and buffers, as PyTorch allocates them.

    `basis` says how the model's config is known (`config_basis`).
    """
    why = explain(stage, dtype, quantization)
    return line_of("weights", stage.allocated_bytes, basis, why)


def used_lines(
    run: ProfileRun,
    stage: StageWeights,
    *,
    is_cudagraph_charged: bool,
) -> tuple[Line, ...]:
    """Return all lines except the KV cache."""
    if run.gpu.is_cpu:
        from planner.memory import cpu_account  # noqa: PLC0415 - the CPU build only

        return cpu_account.lines(run, stage)
    weights = weights_line(
        stage, run.dtype, run.model.quantization, config_basis(run.model)
    )
    # Plans of one batch that differ only in their longest request share the lines.
    shared = run if run.depends_on_length else run.without_length
    lines = _profiled_lines(shared, is_charged=is_cudagraph_charged)
    return (weights, *(_with_buffers(line, stage.prefetch_bytes) for line in lines))


def _with_buffers(line: Line, prefetch_bytes: int) -> Line:
    """Add the buffers of prefetched layers, which are allocated after loading.

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
    """Return the lines that follow from the profile run, and its graphs."""
    return (
        persistent.line(run),
        activations.line(run),
        non_torch.line(run),
        cudagraphs.line(run, is_charged=is_charged),
        *([frontend.decoding_line(run.decoding_bytes)] if run.decoding_bytes else []),
    )


@frozen
class Budget:
    """A rank's memory budget, and the part of it that the user set for the KV cache."""

    requested_bytes: int
    kv_cache_memory_bytes: int | None
    """None: the KV cache takes the remainder."""


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
        variants = tuple(one for line in lines for one in line.variants)
        is_open = is_unread(run.model, run.release)
        more = UNREAD_BYTES if is_open else 0
        closing: tuple[Line, ...] = (_measured_kv(lines, budget.requested_bytes, more),)
    else:
        variants = ()
        closing = _fixed_kv(budget.kv_cache_memory_bytes, budget.requested_bytes - used)
    kv_line = closing[0]
    is_cpu = run.gpu.is_cpu
    return RankMemory(
        pp_rank=run.pp_rank,
        weights_bytes=stage.weights_bytes,
        # CPU memory is allocated to the byte.
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
        variants=variants,
        profile_run=run,
    )


def _outside(
    run: ProfileRun, lines: tuple[Line, ...], cache: StageCache
) -> tuple[Line, ...]:
    sizes = {line.name: line.size_bytes for line in lines}
    return outside.lines(
        run,
        cache.groups,
        charged_graph_bytes=sizes["CUDA graphs"],
        peak_bytes=sizes["peak activation"],
    )


def _measured_kv(
    lines: tuple[Line, ...], requested_bytes: int, unread_bytes: int
) -> Line:
    used = sum(line.size_bytes for line in lines)
    above = [line.high_bytes - line.size_bytes for line in lines] + [unread_bytes]
    below = [line.size_bytes - line.low_bytes for line in lines]
    is_own = any(line.record for line in lines if line.name == "peak activation")
    least = _OWN_REPEATED_BYTES if is_own else _REPEATED_BYTES
    more = open_bytes([one for line in lines for one in line.variants])
    others = " - ".join(f"{line.name} {format_size(line.size_bytes)}" for line in lines)
    left = requested_bytes - used
    return line_of(
        "KV cache",
        (
            left - max(_spread(above), least) - more,
            left,
            left + max(_spread(below), least),
        ),
        Basis.FORMULA,
        f"requested {format_gib(requested_bytes)} - {others} = {format_gib(left)}",
    )


def _spread(sides_bytes: list[int]) -> int:
    """Return the error of a sum of figures whose errors are independent."""
    return isqrt(sum(side * side for side in sides_bytes))


def _fixed_kv(kv_bytes: int, left_bytes: int) -> tuple[Line, Line]:
    rest = left_bytes - kv_bytes
    return (
        line_of(
            "KV cache",
            kv_bytes,
            Basis.EXACT,
            f"kv_cache_memory_bytes = {kv_bytes:,} bytes, as requested",
        ),
        line_of(
            "not planned",
            rest,
            Basis.FORMULA,
            "requested memory that a fixed KV cache leaves unused"
            if rest >= 0
            else "the fixed KV cache goes beyond the requested memory by this much",
        ),
    )
