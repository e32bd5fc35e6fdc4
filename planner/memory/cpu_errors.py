"""What vLLM's CPU build says when a memory node is too small or too full.

Source: vLLM 0.32.0 and 0.33.0 `v1/worker/cpu_worker.py` CPUWorker.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from planner.gpu import GPU
from planner.releases import Release
from planner.result import VLLMError
from planner.units import vllm_gib


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A worker's share of a memory node, and what its process takes of it."""

    gpu: GPU
    release: Release
    utilization: float
    requested_bytes: int
    consumed_bytes: int
    """Resident memory of the process once the warm-up is over."""
    kv_cache_memory_bytes: int | None
    """None: the KV cache takes what is left."""

    @property
    def node(self) -> int:
        """The memory node's number."""
        return 0 if self.gpu.processor is None else self.gpu.processor.memory_node

    @property
    def left_bytes(self) -> int:
        """What the share leaves to the KV cache."""
        return self.requested_bytes - self.consumed_bytes


def memory_error(share: Share, weights_bytes: int) -> VLLMError | None:
    """Return the error of a node on which too little is free; None where enough is.

    A node of which nothing else is known is taken to be free.
    """
    free = share.gpu.free_memory_bytes
    fixed = share.kv_cache_memory_bytes
    if free is None:
        free = share.gpu.total_memory_bytes
    elif (
        fixed is None
        and share.release.cpu_checks_memory_at_start
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
    asked = share.left_bytes if fixed is None else fixed
    if asked > left:
        return _full_for_cache(share, left)
    return None


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


def no_room(share: Share) -> VLLMError:
    """Return the error of a share that the process fills by itself."""
    if not share.release.cpu_names_full_share:
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
