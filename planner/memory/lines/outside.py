"""GPU memory outside the budget, which can still make a run fail.

`gpu_memory_utilization` does not request all of the GPU. The remainder has to hold the
CUDA context, the start of NCCL, buffers that this release does not count, CUDA graphs
that are not charged, block tables, and workspaces of attention kernels that are
allocated after profiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.engine.generations import DATACENTER_BLACKWELL, HOPPER
from planner.engine.gpu import GPU
from planner.engine.links import Link, link_of
from planner.engine.releases.shared import COUNTS_DISTRIBUTED_START, SUBTRACTS_CONSUMED
from planner.memory.account import Basis, Line, line_of
from planner.memory.kv_cache.kv_groups import LayerGroup
from planner.memory.lines.calibration import Fitted, context_of, non_torch
from planner.memory.lines.cudagraphs import actual_bytes, beyond_estimate
from planner.memory.lines.non_torch import FEW_STARTS, is_unified
from planner.memory.lines.persistent import kept_before
from planner.memory.lines.sampler import (
    PROFILES_ALL_PARAMETERS,
    sampled_bytes_per_logit,
)
from planner.memory.profile_run import ProfileRun
from planner.units import MIB, counted, format_size

_INT32, _INT64 = 4, 8
_EIGHT = 8
"""Ranks from which NCCL took more, where releases up to 0.10 count it."""
NOT_CHARGED = "CUDA graphs not charged"
CUDA_CONTEXT = "CUDA context"
WARM_UP = "sampler's warm-up"
_THREADS = {(7, 5): 1024, (8, 6): 1536, (8, 7): 1536, (8, 9): 1536, (12, 0): 1536}
_MOST_THREADS = 2048
_USUAL_SMS = 132
"""Of an H100, where a GPU's multiprocessors are not known."""


def lines(
    run: ProfileRun,
    groups: Sequence[LayerGroup],
    *,
    charged_graph_bytes: int,
    peak_bytes: int,
) -> tuple[Line, ...]:
    """Return the lines outside the budget on one rank.

    Args:
        run: the profile run.
        groups: the KV cache's block tables.
        charged_graph_bytes: the part of the CUDA graphs charged to the budget.
        peak_bytes: peak activation, which is free again after the profile run.
    """
    found = [
        _context(run),
        _uncounted(run),
        _graphs(run, charged_graph_bytes),
        _block_tables(run, groups),
        _attention(run),
        _warm_up(run, peak_bytes),
    ]
    return tuple(line for line in found if line.high_bytes)


def _context(run: ProfileRun) -> Line:
    """Return what is gone at vLLM's first look at the memory.

    CUDA's context, NCCL where it starts before that look, and what a machine keeps:
    Windows of a card that shows the desktop, the system where it shares the memory.

    Source: vLLM 0.11.0 `v1/worker/gpu_worker.py` init_device; total less free memory
    at the start of published runs.
    """
    gpu = run.gpu
    if is_unified(gpu):
        kept = non_torch("unified memory at start")
        why = f"system and programs {format_size(kept.size_bytes)}"
        return line_of(
            CUDA_CONTEXT, _sum([kept]), Basis.MEASURED, f"{why} (published runs)"
        )
    parts = [context_of(resident_threads(gpu))]
    why = f"context {format_size(parts[0].size_bytes)}"
    is_spread = run.layout.world_size > 1
    if is_spread and not run.release.has(COUNTS_DISTRIBUTED_START):
        parts += _start_of_nccl(run)
        started = sum(part.size_bytes for part in parts[1:])
        why += f" + start of NCCL {format_size(started)}"
    if gpu.is_under_wsl:
        parts.append(non_torch("Windows"))
        why += f" + Windows {format_size(parts[-1].size_bytes)}"
    basis = Basis.ASSUMED if parts[-1].starts < FEW_STARTS else Basis.MEASURED
    return line_of(CUDA_CONTEXT, _sum(parts), basis, f"{why} (published runs)")


def resident_threads(gpu: GPU) -> int:
    """Return how many threads a GPU holds at once.

    CUDA's context reserves local memory for each of them.

    Source: CUDA C++ Programming Guide, "Technical Specifications per Compute
    Capability".
    """
    each = _THREADS.get(gpu.compute_capability, _MOST_THREADS)
    return each * (gpu.num_sms or _USUAL_SMS)


def _start_of_nccl(run: ProfileRun) -> list[Fitted]:
    """Return NCCL's buffers: those of NVSwitch were measured beside the budget.

    Experts have a group of ranks of their own, with buffers of its own. Over other
    wires NCCL has fewer channels, and without peer access its buffers are in the host's
    memory; NVSwitch is the bound.

    Source: vLLM 0.19.1 `distributed/parallel_state.py` initialize_model_parallel;
    NCCL `src/transport/shm.cc`, `src/graph/search.cc`.
    """
    switched = non_torch("start of NCCL beside the budget")
    if link_of(run.gpu, run.interconnect) is not Link.NVSWITCH:
        other = non_torch("start of NCCL beside the budget, other")
        return [replace(other, low_bytes=0, high_bytes=switched.size_bytes)]
    if run.layout.tensor_parallel_size >= _EIGHT:
        of_eight = non_torch("start of NCCL, NVSwitch").high_bytes
        switched = replace(switched, high_bytes=max(switched.high_bytes, of_eight))
    if not run.model.is_moe:
        return [switched]
    return [switched, non_torch("a further group of NCCL")]


def _sum(parts: Sequence[Fitted]) -> tuple[int, int, int]:
    return (
        sum(part.low_bytes for part in parts),
        sum(part.size_bytes for part in parts),
        sum(part.high_bytes for part in parts),
    )


def _uncounted(run: ProfileRun) -> Line:
    size = 0 if run.release.has(SUBTRACTS_CONSUMED) else sum(kept_before(run).values())
    why = "input buffers and sampler state, made before the profile run"
    return line_of("buffers not counted", size, Basis.FORMULA, why)


def _graphs(run: ProfileRun, charged_bytes: int) -> Line:
    beyond = beyond_estimate(run) if charged_bytes else None
    if beyond is not None:
        most, why = beyond
        return line_of(NOT_CHARGED, (0, 0, most), Basis.MEASURED, why)
    actual = actual_bytes(run)
    beside = max(0, actual - charged_bytes)
    why = f"{format_size(actual)} captured - {format_size(charged_bytes)} charged"
    range_bytes = (beside // 2, beside, 2 * beside)
    return line_of(NOT_CHARGED, range_bytes, Basis.MEASURED, why)


def _warm_up(run: ProfileRun, peak_bytes: int) -> Line:
    """Return what the sampler's warm-up takes beyond the profile run's peak."""
    size = 0
    if (
        run.samples
        and run.uses_v2_runner
        and not run.release.has(PROFILES_ALL_PARAMETERS)
    ):
        logits = run.num_requests * run.model.vocab_size
        size = max(0, logits * sampled_bytes_per_logit(run) - peak_bytes)
    why = "sampling with all parameters, beyond the peak that the profile run left free"
    return line_of(WARM_UP, (0, size, size), Basis.FORMULA, why)


def _block_tables(run: ProfileRun, groups: Sequence[LayerGroup]) -> Line:
    """Return two tables of block ids per group, and a slot per token.

    Source: vLLM 0.33.0 `v1/worker/gpu/block_table.py` BlockTables.
    """
    entries = sum(
        2 * run.max_num_seqs * -(-run.max_model_len // group.spec.block_size) * _INT32
        + run.max_num_batched_tokens * _INT64
        for group in groups
    )
    why = (
        f"{counted(len(groups), 'groups')} x (2 x {run.max_num_seqs:,} max_num_seqs x "
        f"blocks of {counted(run.max_model_len, 'tokens')} x 4 bytes + a slot per "
        "token)"
    )
    return line_of("block tables", entries, Basis.FORMULA, why)


def _attention(run: ProfileRun) -> Line:
    """Return FlashInfer's workspace, allocated at the first use of its kernels.

    Source: vLLM 0.33.0 `envs.py` VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE;
    `v1/attention/backends/flashinfer.py`.
    """
    size = 0
    if run.gpu.compute_capability[0] == DATACENTER_BLACKWELL.major:
        size = run.flashinfer_buffer_bytes
    # Prefill of long prompts needs scratch memory that no profile run measures.
    high = size + (
        256 * MIB if run.gpu.compute_capability[0] >= HOPPER.major else 64 * MIB
    )
    why = f"FlashInfer workspace {format_size(size)}; prefill scratch is not measured"
    return line_of("attention workspaces", (size, size, high), Basis.ASSUMED, why)
