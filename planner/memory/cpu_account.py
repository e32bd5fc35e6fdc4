"""The account of a worker of vLLM's CPU build: its share less what its process holds.

The share is a part of the memory node. The KV cache gets what is left of it after the
process's resident memory, as the operating system counts it once the warm-up is over.

Source: vLLM 0.29.0 to 0.33.0 `v1/worker/cpu_worker.py` CPUWorker.
"""

from __future__ import annotations

from planner.layers import Part
from planner.memory.calibration import Fitted, processor_part
from planner.memory.encoder import encoder_peak_bytes
from planner.memory.forward import forward
from planner.memory.profile_run import ProfileRun
from planner.memory.sized import ranged_line
from planner.memory.weights import StageWeights
from planner.result import Basis, Line
from planner.units import MIB, format_size

_TABLE_ENTRY_BYTES = 5
"""A token id of 4 bytes, and whether it is one."""
_FLOAT32 = 4
_PACKING_SHARE, _PACKING_USUAL_BYTES = 20, 64 * MIB
"""A share of the weights stays with the allocator once they are packed."""
_PACKING_MOST_SHARE = 7


def lines(run: ProfileRun, stage: StageWeights) -> tuple[Line, ...]:
    """Return every line but the KV cache."""
    return (
        _weights(run, stage),
        _buffers(run, stage),
        _warm_up(run),
        _process(stage),
    )


def _weights(run: ProfileRun, stage: StageWeights) -> Line:
    parts = " + ".join(
        f"{part.name} {format_size(part.size_bytes)}" for part in stage.parts
    )
    size = stage.weights_bytes
    return Line(
        name="weights",
        size_bytes=size,
        low_bytes=size,
        high_bytes=size,
        basis=Basis.FORMULA,
        why=f"{parts} = {format_size(size)} in {run.dtype}; vLLM packs linear layers "
        "for its kernels, which keeps their size",
    )


def _buffers(run: ProfileRun, stage: StageWeights) -> Line:
    """Tables of token ids, and the packed copies of embeddings beside themselves.

    Source: vLLM 0.33.0 `v1/worker/gpu_input_batch.py` InputBatch;
    `layers/vocab_parallel_embedding.py` UnquantizedEmbeddingMethod.
    """
    tables = run.max_num_seqs * run.max_model_len * _TABLE_ENTRY_BYTES
    copies = _packed_copies_bytes(run, stage)
    return Line(
        name="persistent buffers",
        size_bytes=tables + copies,
        low_bytes=tables,
        high_bytes=tables + copies,
        basis=Basis.FORMULA,
        why=f"token ids {format_size(tables)} ({run.max_num_seqs:,} max_num_seqs x "
        f"{run.max_model_len:,} tokens x {_TABLE_ENTRY_BYTES} bytes) + packed copies "
        f"of embeddings and head {format_size(copies)}",
    )


def _packed_copies_bytes(run: ProfileRun, stage: StageWeights) -> int:
    sizes = {part.name: part.size_bytes for part in stage.parts}
    embeddings = sizes.get(str(Part.EMBEDDINGS), 0)
    head = sizes.get(str(Part.LM_HEAD), 0)
    if run.samples and not head:
        head = embeddings  # a tied head is packed for itself
    return embeddings + head


def _warm_up(run: ProfileRun) -> Line:
    """What compiling and the warm-up leave resident; eager starts do neither.

    Source: vLLM 0.33.0 `v1/worker/cpu_model_runner.py` warming_up_model.
    """
    if run.enforce_eager or run.skips_warm_up:
        why = f"no warm-up ({_cause(run)})"
        return ranged_line("peak activation", (0, 0, 0), Basis.FORMULA, why)
    compiling = processor_part("compiling")
    step = max(forward(run).size_bytes, encoder_peak_bytes(run).size_bytes)
    if run.samples:
        step = max(step, run.num_requests * run.model.vocab_size * _FLOAT32)
    return ranged_line(
        "peak activation",
        (
            compiling.low_bytes,
            compiling.size_bytes + step // 2,
            compiling.high_bytes + step,
        ),
        Basis.ASSUMED,
        f"compiling {format_size(compiling.size_bytes)} (from {compiling.starts} "
        "starts) + half of the warm-up's largest step, "
        f"{format_size(step)}, of which the process may keep all or nothing",
    )


def _cause(run: ProfileRun) -> str:
    return "enforce_eager" if run.enforce_eager else "VLLM_CPU_CI_ENV"


def _process(stage: StageWeights) -> Line:
    process: Fitted = processor_part("process")
    left = min(stage.weights_bytes // _PACKING_SHARE, _PACKING_USUAL_BYTES)
    most = stage.weights_bytes // _PACKING_MOST_SHARE
    return ranged_line(
        "non-torch",
        (
            process.low_bytes,
            process.size_bytes + left,
            process.high_bytes + most,
        ),
        Basis.MEASURED,
        f"the worker's process {format_size(process.size_bytes)}: Python, PyTorch and "
        f"vLLM themselves (from {process.starts} starts of vLLM 0.32.0) + what packing "
        f"the weights leaves behind {format_size(left)}",
    )
