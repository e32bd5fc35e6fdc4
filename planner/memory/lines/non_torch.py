"""Non-torch memory: kernel modules, all-reduce buffers, NCCL and other memory.

What is allocated before vLLM's first snapshot is outside the budget and not in this
line; up to 0.10 NCCL was started after it. The buffers of FlashInfer's fused all-reduce
follow from the code; the rest only a GPU can show, and is fitted to published starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from planner.engine.gpu import GPU
from planner.engine.layout import DATACENTER_BLACKWELL, HOPPER, UNIFIED
from planner.engine.releases import Release
from planner.memory.account import Basis, Line
from planner.memory.compilation import GraphMode
from planner.memory.lines.calibration import Fitted, non_torch
from planner.memory.profile_run import ProfileRun
from planner.units import KIB, MIB, format_size

_TWO = 2
_FUSED_RANKS = (2, 4, 8)
FEW_STARTS = 3
"""With fewer published starts, a figure is an assumption."""
# Largest fused message in MiB, by number of ranks.
_FUSED_HOPPER_MIB = {2: 64.0, 4: 2.0, 8: 0.5}
_FUSED_BLACKWELL_MIB = {2: 64.0, 4: 32.0, 8: 1.0}
_FUSED_BLACKWELL_ULTRA_MIB = {2: 64.0, 4: 64.0, 8: 2.0}
_FUSES_ALL_REDUCE_SINCE = (0, 17)
"""Tensor parallel fuses all-reduce and norm with FlashInfer's buffers.

Source: vLLM 0.17.0 `config/vllm.py` enable_allreduce_rms_fusion.
"""


def line(run: ProfileRun) -> Line:
    """Return the line of memory that PyTorch does not allocate.

    Source: `planner/data/calibration/non_torch.json`; `fused_all_reduce_bytes`.
    """
    parts = [(name, non_torch(name)) for name in part_names(run)]
    fused = fused_all_reduce_bytes(run)
    total = combined([part for _name, part in parts], fused)
    words = [f"{name} {format_size(part.size_bytes)}" for name, part in parts]
    if fused:
        words.append(f"fused all-reduce {format_size(fused)}")
    return Line(
        name="non-torch",
        size_bytes=total.size_bytes,
        low_bytes=max(0, total.low_bytes),
        high_bytes=total.high_bytes,
        basis=Basis.ASSUMED if total.starts < FEW_STARTS else Basis.MEASURED,
        why=f"{' + '.join(words)} (from {total.starts} published starts or more)",
    )


def combined(parts: Sequence[Fitted], certain_bytes: int) -> Fitted:
    """Return the sum of `certain_bytes` and of parts with independent errors."""
    above = sum((part.high_bytes - part.size_bytes) ** 2 for part in parts)
    below = sum((part.size_bytes - part.low_bytes) ** 2 for part in parts)
    middle = certain_bytes + sum(part.size_bytes for part in parts)
    return Fitted(
        size_bytes=middle,
        low_bytes=middle - isqrt(below),
        high_bytes=middle + isqrt(above),
        starts=min(part.starts for part in parts),
    )


def part_names(run: ProfileRun) -> tuple[str, ...]:
    """Return the names of this start's parts, as in the calibration."""
    release, ranks = run.release, run.layout.tensor_parallel_size
    generation = "hopper" if run.gpu.compute_capability[0] == HOPPER else "other"
    names = [f"modules, {generation}"]
    is_alone = run.layout.world_size == 1
    if _counts_graph_residue(release) and is_alone and _captures(run):
        names.append("graph profiling")
    if ranks > 1:
        is_switched = has_switch(run.gpu)
        wires = "NVSwitch" if is_switched else "other"
        count = ", two ranks" if ranks == _TWO else ", more ranks"
        names.append(f"NCCL, {wires}{count if is_switched else ''}")
        if release.counts_distributed_start:
            names.append(f"start of NCCL, {wires}")
    if _pins_segments(release):
        names.append("segments that stay")
    if is_unified(run.gpu):
        names.append("unified memory")
    return tuple(names)


def _captures(run: ProfileRun) -> bool:
    """Return whether CUDA graphs are captured, whose profiling leaves a residue."""
    return not run.enforce_eager and run.graph_mode is not GraphMode.NONE


def has_switch(gpu: GPU) -> bool:
    """Return whether servers of this GPU join it to the others by NVSwitch."""
    return gpu.compute_capability[0] in (HOPPER, DATACENTER_BLACKWELL)


def is_unified(gpu: GPU) -> bool:
    """Return whether the GPU shares its memory with the processor and its programs."""
    return gpu.is_integrated or gpu.compute_capability in UNIFIED


def fused_all_reduce_bytes(run: ProfileRun) -> int:
    """Return FlashInfer's buffers for all-reduce fused with norms.

    Source: vLLM 0.19.0 `compilation/passes/fusion/allreduce_rms_fusion.py`,
    `config/vllm.py` enable_allreduce_rms_fusion; FlashInfer's symmetric buffers.
    """
    limit = _fused_limit_bytes(run)
    if not limit:
        return 0
    ranks = run.layout.tensor_parallel_size
    message = run.max_num_batched_tokens * run.model.hidden_size * run.element_size
    size = min(limit, message)
    step = _fused_buffer_granularity_bytes(run.release)
    buffers = (ranks * size, ranks * KIB, 3 * ranks * size)
    return sum(-(-buffer // step) * step for buffer in buffers)


def _fused_limit_bytes(run: ProfileRun) -> int:
    """Return the size of the largest fused message; 0 where the fusion is off."""
    release, layout = run.release, run.layout
    ranks = layout.tensor_parallel_size
    is_alone = layout.data_parallel_size == 1 or release >= (0, 21)
    if (
        release < _FUSES_ALL_REDUCE_SINCE
        or run.enforce_eager
        or not run.may_fuse_all_reduce
        or ranks not in _FUSED_RANKS
        or not is_alone
        or not _may_pipeline(run)
    ):
        return 0
    if run.gpu.compute_capability == (9, 0):
        table = _FUSED_HOPPER_MIB
    elif run.gpu.compute_capability == (10, 0):
        table = _FUSED_BLACKWELL_MIB
    elif run.gpu.compute_capability == (10, 3) and release >= (0, 19):
        table = _FUSED_BLACKWELL_ULTRA_MIB
    else:
        return 0
    return int(table[ranks] * MIB)


def _may_pipeline(run: ProfileRun) -> bool:
    """Return whether pipeline parallel leaves the fusion on."""
    if run.layout.pipeline_parallel_size == 1:
        return True
    release = run.release
    is_free = (0, 21) <= release < (0, 23)
    return is_free or release >= (0, 27)


def _counts_graph_residue(release: Release) -> bool:
    """Return whether the residue of the graph estimate is charged to the budget.

    Source: vLLM 0.18.0 and 0.27.0 `v1/worker/gpu_worker.py`
    determine_available_memory.
    """
    return (0, 18) <= release < (0, 27)


def _pins_segments(release: Release) -> bool:
    """Return whether freed segments may stay charged because of a small tensor in them.

    From 0.27 on, the drop in free device memory is charged; only from 0.31 on does the
    profile run keep large blocks from being split.

    Source: vLLM 0.31.0 `v1/worker/gpu_worker.py` determine_available_memory.
    """
    return (0, 27) <= release < (0, 31)


def _fused_buffer_granularity_bytes(release: Release) -> int:
    """Return the multiple to which FlashInfer rounds buffers of the fused all-reduce.

    Source: vLLM 0.28.0 and 0.29.0 requirements (FlashInfer 0.6.16 and 0.6.18); the
    512 MiB follow from 0.19 logs, equal for two and four ranks.
    """
    return (2 << 20) if release >= (0, 29) else (512 << 20)
