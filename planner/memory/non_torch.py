"""Non-torch memory: kernel modules, all-reduce buffers, NCCL, other memory.

What is created before vLLM's first snapshot lies outside the budget and is not in this
line; up to 0.10 the start of NCCL came after it. The buffers of FlashInfer's fused
all-reduce follow from the code; the rest only a GPU tells, and is fitted to published
starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from planner.compilation import GraphMode
from planner.gpu import GPU
from planner.memory.calibration import Fitted, non_torch
from planner.memory.profile_run import ProfileRun
from planner.parallel import DATACENTER_BLACKWELL, HOPPER, UNIFIED
from planner.result import Basis, Line
from planner.units import KIB, MIB, format_size

_TWO = 2
_FUSED_RANKS = (2, 4, 8)
_FEW_STARTS = 3
# Largest message that is fused, MiB by ranks.
_FUSED_HOPPER_MIB = {2: 64.0, 4: 2.0, 8: 0.5}
_FUSED_BLACKWELL_MIB = {2: 64.0, 4: 32.0, 8: 1.0}
_FUSED_BLACKWELL_ULTRA_MIB = {2: 64.0, 4: 64.0, 8: 2.0}


def line(run: ProfileRun) -> Line:
    """Return the line of memory that PyTorch does not know of.

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
        basis=Basis.ASSUMED if total.starts < _FEW_STARTS else Basis.MEASURED,
        why=f"{' + '.join(words)} (from {total.starts} published starts or more)",
    )


def combined(parts: Sequence[Fitted], certain_bytes: int) -> Fitted:
    """Return the sum of parts that err independently, and of what is certain."""
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
    """Return the names of the parts that this start has, as in the calibration."""
    release, ranks = run.release, run.layout.tensor_parallel_size
    generation = "hopper" if run.gpu.compute_capability[0] == HOPPER else "other"
    names = [f"modules, {generation}"]
    is_alone = run.layout.world_size == 1
    if release.counts_graph_residue and is_alone and _captures(run):
        names.append("graph profiling")
    if ranks > 1:
        has_switch = run.gpu.compute_capability[0] in (HOPPER, DATACENTER_BLACKWELL)
        wires = "NVSwitch" if has_switch else "other"
        count = ", two ranks" if ranks == _TWO else ", more ranks"
        names.append(f"NCCL, {wires}{count if has_switch else ''}")
        if release.counts_distributed_start:
            names.append(f"start of NCCL, {wires}")
    if release.pins_segments:
        names.append("segments that stay")
    if is_unified(run.gpu):
        names.append("unified memory")
    return tuple(names)


def _captures(run: ProfileRun) -> bool:
    """Return whether CUDA graphs are captured, of which profiling leaves something."""
    return not run.enforce_eager and run.graph_mode is not GraphMode.NONE


def is_unified(gpu: GPU) -> bool:
    """Return whether GPU and processor share the memory, and its use by others."""
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
    step = run.release.fused_buffer_granularity_bytes
    buffers = (ranks * size, ranks * KIB, 3 * ranks * size)
    return sum(-(-buffer // step) * step for buffer in buffers)


def _fused_limit_bytes(run: ProfileRun) -> int:
    """Largest fused message; 0 where the fusion is off."""
    release, layout = run.release, run.layout
    ranks = layout.tensor_parallel_size
    is_alone = layout.data_parallel_size == 1 or release.since(0, 21)
    if (
        not release.fuses_all_reduce
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
    elif run.gpu.compute_capability == (10, 3) and release.since(0, 19):
        table = _FUSED_BLACKWELL_ULTRA_MIB
    else:
        return 0
    return int(table[ranks] * MIB)


def _may_pipeline(run: ProfileRun) -> bool:
    """Return whether pipeline parallel leaves the fusion on."""
    if run.layout.pipeline_parallel_size == 1:
        return True
    release = run.release
    is_free = release.since(0, 21) and not release.since(0, 23)
    return is_free or release.since(0, 27)
