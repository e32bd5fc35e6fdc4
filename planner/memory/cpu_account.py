"""The account of a worker of vLLM's CPU build, and its errors about memory.

A worker's share is a fraction of its memory node. The KV cache gets what is left of it
after the process's resident memory, as the operating system counts it after the
warm-up.

Source: vLLM 0.29.0 to 0.33.0 `v1/worker/cpu_worker.py` CPUWorker.
"""

from __future__ import annotations

from math import ceil

from planner.engine.gpu import GPU
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.memory.account import Basis, Line, VLLMError, line_of
from planner.memory.lines.calibration import Fitted, processor_part
from planner.memory.lines.forward_pass import forward
from planner.memory.media.peak import encoder_peak_bytes
from planner.memory.profile_run import ProfileRun
from planner.memory.weights import StageWeights
from planner.models.layers import Part
from planner.units import MIB, format_size, vllm_gib
from planner.values import frozen

_TABLE_ENTRY_BYTES = 5
"""A token id of 4 bytes, and a flag that tells ids from embeddings."""
_FLOAT32 = 4
_PACKING_SHARE, _PACKING_USUAL_BYTES = 20, 64 * MIB
"""A share of the weights stays with the allocator after packing, up to a limit."""
_PACKING_MOST_SHARE = 7
_CHECKS_MEMORY_AT_START = Change(
    until=(0, 33),
    what=(
        "In the CPU build, a worker compares its share with the free memory before it "
        "loads the model."
    ),
    source="vLLM 0.32.0 `v1/worker/cpu_worker.py` CPUWorker",
)
_NAMES_FULL_SHARE = Change(
    since=(0, 33),
    what=(
        "In the CPU build, a share of memory that the worker itself fills has an error "
        "of its own."
    ),
    source="vLLM 0.33.0 `v1/worker/cpu_worker.py` determine_available_memory",
)


def lines(run: ProfileRun, stage: StageWeights) -> tuple[Line, ...]:
    """Return all lines except the KV cache."""
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
    return line_of(
        "weights",
        size,
        Basis.FORMULA,
        f"{parts} = {format_size(size)} in {run.dtype}; vLLM packs linear layers "
        "for its kernels, which keeps their size",
    )


def _buffers(run: ProfileRun, stage: StageWeights) -> Line:
    """Return tables of token ids, and the packed copies of embeddings and head.

    Source: vLLM 0.33.0 `v1/worker/gpu_input_batch.py` InputBatch;
    `layers/vocab_parallel_embedding.py` UnquantizedEmbeddingMethod.
    """
    tables = run.max_num_seqs * run.max_model_len * _TABLE_ENTRY_BYTES
    copies = _packed_copies_bytes(run, stage)
    return line_of(
        "persistent buffers",
        (tables, tables + copies, tables + copies),
        Basis.FORMULA,
        f"token ids {format_size(tables)} ({run.max_num_seqs:,} max_num_seqs x "
        f"{run.max_model_len:,} tokens x {_TABLE_ENTRY_BYTES} bytes) + packed copies "
        f"of embeddings and head {format_size(copies)}",
    )


def _packed_copies_bytes(run: ProfileRun, stage: StageWeights) -> int:
    sizes = {part.name: part.size_bytes for part in stage.parts}
    embeddings = sizes.get(str(Part.EMBEDDINGS), 0)
    head = sizes.get(str(Part.LM_HEAD), 0)
    if run.samples and not head:
        head = embeddings  # a tied head has a packed copy of its own
    return embeddings + head


def _warm_up(run: ProfileRun) -> Line:
    """Return what compiling and the warm-up leave resident; eager starts do neither.

    Source: vLLM 0.33.0 `v1/worker/cpu_model_runner.py` warming_up_model.
    """
    if run.enforce_eager or run.env.skips_cpu_warm_up:
        cause = "enforce_eager" if run.enforce_eager else "VLLM_CPU_CI_ENV"
        why = f"no warm-up ({cause})"
        return line_of("peak activation", 0, Basis.FORMULA, why)
    compiling = processor_part("compiling")
    step = max(forward(run).size_bytes, encoder_peak_bytes(run).size_bytes)
    if run.samples:
        step = max(step, run.num_requests * run.model.vocab_size * _FLOAT32)
    return line_of(
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


def _process(stage: StageWeights) -> Line:
    process: Fitted = processor_part("process")
    left = min(stage.weights_bytes // _PACKING_SHARE, _PACKING_USUAL_BYTES)
    most = stage.weights_bytes // _PACKING_MOST_SHARE
    return line_of(
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


@frozen
class Share:
    """A worker's share of a memory node, and how much of it the process uses."""

    gpu: GPU
    release: Release
    utilization: float
    requested_bytes: int
    consumed_bytes: int
    """Resident memory of the process after the warm-up."""
    kv_cache_memory_bytes: int | None
    """None: the KV cache takes the remainder."""

    @property
    def node(self) -> int:
        """The memory node's number."""
        return 0 if self.gpu.processor is None else self.gpu.processor.memory_node

    @property
    def left_bytes(self) -> int:
        """The part of the share that is left for the KV cache."""
        return self.requested_bytes - self.consumed_bytes


def memory_error(share: Share, weights_bytes: int) -> VLLMError | None:
    """Return the error of a node without enough free memory, or None.

    Where its free memory is not known, all of the node's memory counts as free.
    """
    free = share.gpu.free_memory_bytes
    fixed = share.kv_cache_memory_bytes
    if free is None:
        free = share.gpu.total_memory_bytes
    elif (
        fixed is None
        and share.release.has(_CHECKS_MEMORY_AT_START)
        and share.requested_bytes > free
    ):
        return _full_at_start(share, free)
    if weights_bytes > free:
        return VLLMError(
            kind="weights",
            message=f"The weights take {vllm_gib(weights_bytes)} GiB, and "
            f"{vllm_gib(free)} GiB are free: the operating system ends the process.",
        )
    left = max(0, free - share.consumed_bytes)
    needed = share.left_bytes if fixed is None else fixed
    if needed > left:
        return _full_for_cache(share, left)
    return None


def no_room(share: Share) -> VLLMError:
    """Return the error of a share that the process itself fills."""
    if not share.release.has(_NAMES_FULL_SHARE):
        free = share.gpu.free_memory_bytes
        free = share.gpu.total_memory_bytes if free is None else free
        message = _full_for_cache(share, max(0, free - share.consumed_bytes)).message
        return VLLMError(kind="no_kv", message=message)
    in_use = ceil(share.consumed_bytes / share.gpu.total_memory_bytes * 100)
    return VLLMError(
        kind="no_kv",
        message=f"The worker already uses {vllm_gib(share.consumed_bytes)} GiB (model "
        f"weights and runtime), more than the {vllm_gib(share.requested_bytes)} GiB of "
        f"CPU memory reserved for it on node {share.node}, leaving none for the KV "
        "cache. On the CPU backend, the `--gpu-memory-utilization` flag controls the "
        "fraction of CPU memory reserved (despite its name). To resolve: increase "
        f"`--gpu-memory-utilization` to more than {in_use / 100:.2f}, or set the KV "
        "cache size explicitly with `--kv-cache-memory-bytes` or "
        "VLLM_CPU_KVCACHE_SPACE.",
    )


def _full_at_start(share: Share, free_bytes: int) -> VLLMError:
    return VLLMError(
        kind="free_memory",
        message=f"Available memory on node {share.node} "
        f"({vllm_gib(free_bytes)}/{vllm_gib(share.gpu.total_memory_bytes)} GiB) on "
        "startup is less than desired CPU memory utilization "
        f"({share.utilization}, {vllm_gib(share.requested_bytes)} GiB). On the CPU "
        "backend, the `--gpu-memory-utilization` flag controls the fraction of CPU "
        "memory reserved (despite its name). To resolve: decrease "
        "`--gpu-memory-utilization` (e.g. `--gpu-memory-utilization 0.5`) or reduce "
        "CPU memory used by other processes.",
    )


def _full_for_cache(share: Share, free_bytes: int) -> VLLMError:
    fixed = share.kv_cache_memory_bytes
    where = (
        f"Available memory on node {share.node} ({vllm_gib(free_bytes)}/"
        f"{vllm_gib(share.gpu.total_memory_bytes)} GiB) on kv cache allocation is less "
        "than requested memory for kv "
    )
    if fixed is not None:
        what = (
            f"({vllm_gib(fixed)} GiB). Decrease --kv-cache-memory-bytes, "
            "VLLM_CPU_KVCACHE_SPACE, or reduce CPU memory used by other processes."
        )
    else:
        what = (
            f"({vllm_gib(share.left_bytes)}/{vllm_gib(share.requested_bytes)} GiB). "
            "Reduce CPU memory used by other processes."
        )
    return VLLMError(kind="free_memory", message=where + what)
