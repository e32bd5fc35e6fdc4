"""Non-torch memory: kernel modules, all-reduce buffers, NCCL and other memory.

What is allocated before vLLM's first snapshot is outside the budget and not in this
line; up to 0.10 NCCL was started after it. The buffers of FlashInfer's fused all-reduce
follow from the code; the rest only a GPU can show, and is fitted to published starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from planner.engine.generations import B300, DATACENTER_BLACKWELL, HOPPER, UNIFIED
from planner.engine.gpu import GPU
from planner.engine.links import Link, link_of
from planner.engine.releases.change import Change
from planner.engine.releases.shared import COUNTS_DISTRIBUTED_START, SUBTRACTS_CONSUMED
from planner.memory.account import Basis, Line
from planner.memory.compilation import GraphMode
from planner.memory.lines.calibration import Fitted, non_torch
from planner.memory.profile_run import ProfileRun
from planner.units import KIB, MIB, format_size

_TWO, _EIGHT = 2, 8
_FUSED_RANKS = (2, 4, 8)
FEW_STARTS = 3
"""With fewer published starts, a figure is an assumption."""
# Largest fused message in MiB, by number of ranks.
_FUSED_HOPPER_MIB = {2: 64.0, 4: 2.0, 8: 0.5}
_FUSED_BLACKWELL_MIB = {2: 64.0, 4: 32.0, 8: 1.0}
_FUSED_BLACKWELL_ULTRA_MIB = {2: 64.0, 4: 64.0, 8: 2.0}
_FUSED_BLACKWELL_ULTRA_029_MIB = {2: 64.0, 4: 64.0, 8: 4.0}
# Largest message of an all-reduce without a norm, by capability and number of ranks.
_TUNED_EARLIER_MIB = {((10, 3), 4): 80, ((10, 3), 8): 64}
_TUNED_MIB = {((10, 3), 4): 80, ((10, 3), 8): 128, ((10, 0), 8): 128}
_TUNES_ALL_REDUCE = Change(
    since=(0, 29),
    what=(
        "FlashInfer's buffers have room for an all-reduce without a norm on four or "
        "eight B300. On eight, fused messages are up to 4 MiB; before, 2 MiB."
    ),
    source=(
        "vLLM 0.29.0 `distributed/device_communicators/all_reduce_utils.py` "
        "FI_MNNVL_ALLREDUCE_MAX_SIZE_MB"
    ),
)
_TUNES_B200 = Change(
    since=(0, 33),
    what=(
        "FlashInfer's buffers have room for an all-reduce without a norm of 128 MiB on "
        "eight B200 or B300. Before: 64 MiB on eight B300, none on B200."
    ),
    source=(
        "vLLM 0.33.0 `distributed/device_communicators/all_reduce_utils.py` "
        "FI_MNNVL_ALLREDUCE_MAX_SIZE_MB"
    ),
)
_MULTICASTS = Change(
    since=(0, 25),
    what=(
        "All-reduce fused with norms uses FlashInfer's workspace of NVSwitch multicast "
        "(MNNVL): one buffer, of three slots for two stages."
    ),
    source=(
        "vLLM 0.24.0 and 0.25.1 "
        "`distributed/device_communicators/flashinfer_all_reduce.py`"
    ),
)
_SHARES_WORKSPACE = Change(
    since=(0, 26),
    what=(
        "Quantised patterns of all-reduce share FlashInfer's workspace of NVSwitch "
        "multicast (MNNVL). In 0.25, TRT-LLM's is allocated for them beside it."
    ),
    source=(
        "vLLM 0.25.1 and 0.26.0 "
        "`distributed/device_communicators/flashinfer_all_reduce.py`"
    ),
)
_FUSES_ON_B300 = Change(
    since=(0, 19),
    what="All-reduce is fused with norms on B300 too.",
)
_FUSES_IN_COPIES = Change(
    since=(0, 21),
    what="All-reduce is fused with norms with data parallel too.",
)
_FUSES_IN_STAGES_FIRST = Change(
    since=(0, 21),
    until=(0, 23),
    what="All-reduce is fused with norms with pipeline parallel too.",
)
_FUSES_IN_STAGES = Change(
    since=(0, 27),
    what="All-reduce is fused with norms with pipeline parallel again, as in 0.21.",
)
_COUNTS_GRAPH_RESIDUE = Change(
    since=(0, 18),
    until=(0, 27),
    what="What the estimate of CUDA graphs leaves behind is charged to the budget.",
    source=(
        "vLLM 0.18.0 and 0.27.0 `v1/worker/gpu_worker.py` determine_available_memory"
    ),
)
_ONE_SHOT_BYTES = MIB
_SLOTS, _STAGES = 3, 2
_SIGNAL_PAD_BYTES = 2 * KIB
_MULTICAST_BLOCK_BYTES = 512 * MIB
"""Multiple to which memory for NVSwitch multicast is rounded.

Source: FlashInfer's CU_MULTICAST_GRANULARITY_RECOMMENDED; logs of 0.19.0 on H100 hold
three blocks with two and with four ranks, one of 0.26.0 on GB200 no more than one.
"""
_FUSES_ALL_REDUCE = Change(
    since=(0, 17),
    what="Tensor parallel fuses all-reduce and norm with FlashInfer's buffers.",
    source="vLLM 0.17.0 `config/vllm.py` enable_allreduce_rms_fusion",
)


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
    names = [_modules_name(run)]
    is_alone = run.layout.world_size == 1
    if release.has(_COUNTS_GRAPH_RESIDUE) and is_alone and _captures(run):
        names.append("graph profiling")
    if ranks > 1:
        is_switched = link_of(run.gpu, run.interconnect) is Link.NVSWITCH
        wires = "NVSwitch" if is_switched else "other"
        count = ", two ranks" if ranks == _TWO else ", more ranks"
        names.append(f"NCCL, {wires}{count if is_switched else ''}")
        if release.has(COUNTS_DISTRIBUTED_START):
            # Of NVSwitch only eight ranks were measured within the budget.
            is_measured = not is_switched or ranks >= _EIGHT
            beside = "start of NCCL beside the budget"
            names.append(f"start of NCCL, {wires}" if is_measured else beside)
    if is_unified(run.gpu):
        kind = "with encoders" if run.towers else "text only"
        names.append(f"unified memory, {kind}")
    return tuple(names)


def _modules_name(run: ProfileRun) -> str:
    """Return the part for kernel modules and blocks of the allocator.

    From 0.27 on it also holds the unused ends of PyTorch's blocks: the whole drop in
    free device memory is charged.

    Source: vLLM 0.26.0 and 0.27.0 `utils/mem_utils.py` memory_profiling.
    """
    if run.gpu.compute_capability[0] == HOPPER.major:
        return "modules, hopper"
    if run.release.has(SUBTRACTS_CONSUMED):
        return "modules, other, 0.27 and later"
    return "modules, other"


def _captures(run: ProfileRun) -> bool:
    """Return whether CUDA graphs are captured, whose profiling leaves a residue.

    The second runner profiled none as long as the residue counted.
    """
    is_off = run.enforce_eager or run.uses_v2_runner
    return not is_off and run.graph_mode is not GraphMode.NONE


def is_unified(gpu: GPU) -> bool:
    """Return whether the GPU shares its memory with the processor and its programs."""
    return gpu.is_integrated or gpu.compute_capability in UNIFIED


def fused_all_reduce_bytes(run: ProfileRun) -> int:
    """Return FlashInfer's buffers for all-reduce fused with norms.

    TRT-LLM's workspace is three buffers, that of NVSwitch multicast one.

    Source: vLLM 0.19.1 and 0.33.0
    `distributed/device_communicators/flashinfer_all_reduce.py`;
    `compilation/passes/fusion/allreduce_rms_fusion.py`.
    """
    limit = _fused_limit_bytes(run)
    if not limit:
        return 0
    message = run.max_num_batched_tokens * run.model.hidden_size * run.element_size
    size, release = min(limit, message), run.release
    total = 0
    if release.has(_MULTICASTS):
        total += _multicast_workspace_bytes(run, max(size, _tuned_bytes(run)))
    if not release.has(_SHARES_WORKSPACE):
        total += _trtllm_workspace_bytes(run, size)
    return total


def _trtllm_workspace_bytes(run: ProfileRun, size_bytes: int) -> int:
    """Return TRT-LLM's three buffers, each a multiple of the granularity.

    Source: FlashInfer 0.6.6 `comm/trtllm_ar.py`
    trtllm_create_ipc_workspace_for_all_reduce_fusion.
    """
    ranks = run.layout.tensor_parallel_size
    buffers = (ranks * size_bytes, ranks * KIB, 3 * ranks * size_bytes)
    return sum(_in_multicast_blocks(buffer) for buffer in buffers)


def _multicast_workspace_bytes(run: ProfileRun, size_bytes: int) -> int:
    """Return the workspace of NVSwitch multicast for messages of that size.

    Source: FlashInfer 0.6.14 and 0.7.0 `comm/trtllm_mnnvl_ar.py`
    MNNVLAllReduceFusionWorkspace; `comm/mnnvl.py` SymmDeviceMemory.
    """
    ranks = run.layout.tensor_parallel_size
    row = run.model.hidden_size * run.element_size
    tokens = size_bytes // row
    at_once = min(_ONE_SHOT_BYTES // (ranks * row), tokens) * ranks * row
    in_two = _STAGES * -(-tokens // ranks) * ranks * row
    return _in_multicast_blocks(_SLOTS * max(at_once, in_two) + _SIGNAL_PAD_BYTES)


def _tuned_bytes(run: ProfileRun) -> int:
    """Return the largest message of an all-reduce without a norm; 0 if not tuned."""
    if not run.release.has(_TUNES_ALL_REDUCE):
        return 0
    is_newer = run.release.has(_TUNES_B200)
    table = _TUNED_MIB if is_newer else _TUNED_EARLIER_MIB
    key = (run.gpu.compute_capability, run.layout.tensor_parallel_size)
    return table.get(key, 0) * MIB


def _in_multicast_blocks(size_bytes: int) -> int:
    return -(-size_bytes // _MULTICAST_BLOCK_BYTES) * _MULTICAST_BLOCK_BYTES


def _fused_limit_bytes(run: ProfileRun) -> int:
    """Return the size of the largest fused message; 0 where the fusion is off."""
    release, layout = run.release, run.layout
    ranks = layout.tensor_parallel_size
    is_alone = layout.data_parallel_size == 1 or release.has(_FUSES_IN_COPIES)
    if (
        not release.has(_FUSES_ALL_REDUCE)
        or run.enforce_eager
        or not run.may_fuse_all_reduce
        or ranks not in _FUSED_RANKS
        or not is_alone
        or not _may_pipeline(run)
    ):
        return 0
    if run.gpu.compute_capability == HOPPER:
        table = _FUSED_HOPPER_MIB
    elif run.gpu.compute_capability == DATACENTER_BLACKWELL:
        table = _FUSED_BLACKWELL_MIB
    elif run.gpu.compute_capability == B300 and release.has(_FUSES_ON_B300):
        is_newer = release.has(_TUNES_ALL_REDUCE)
        table = _FUSED_BLACKWELL_ULTRA_MIB
        table = _FUSED_BLACKWELL_ULTRA_029_MIB if is_newer else table
    else:
        return 0
    return int(table[ranks] * MIB)


def _may_pipeline(run: ProfileRun) -> bool:
    """Return whether pipeline parallel leaves the fusion on."""
    if run.layout.pipeline_parallel_size == 1:
        return True
    release = run.release
    return release.has(_FUSES_IN_STAGES_FIRST) or release.has(_FUSES_IN_STAGES)
