"""The GPU to plan with, from what the driver reports about it.

NVML's total is the physical memory; the CUDA runtime, which vLLM reads, reports some
hundred MiB less. The catalogue has the runtime's figure for known GPUs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.units import KIB, format_gib
from planner.values import frozen

_SAME_MEMORY = 0.03
"""How much two totals may differ; boards with other memory differ by far more."""


@frozen
class PlannedMemory:
    """A memory as the driver or the operating system reports it."""

    total_bytes: int
    free_bytes: int
    reserved_bytes: int | None
    """Reserved by the driver; None if unknown."""


def planned_gpu(
    *,
    device_name: str,
    compute_capability: tuple[int, int] | None,
    memory: PlannedMemory | None,
    system: PlannedMemory | None = None,
) -> tuple[GPU | None, str]:
    """Return the GPU to plan with, and a sentence that says where its total comes from.

    Args:
        device_name: as the driver reports it.
        compute_capability: None if the driver does not report it.
        memory: as NVML reports it; None where GPU and CPU share one memory.
        system: the machine's own memory, for a GPU that shares it.
    """
    known = _known(device_name, memory)
    capability = compute_capability or (known.compute_capability if known else None)
    if capability is None:
        return None, "The driver does not report the compute capability."
    if known is not None:
        total_bytes = known.total_memory_bytes
        note = f"Total of the catalogue's {known.name}, {known.total_basis}."
    elif memory is not None:
        total_bytes = memory.total_bytes - (memory.reserved_bytes or 0)
        note = _derived(memory)
    elif system is not None:
        total_bytes = system.total_bytes
        note = "Unified memory: total of the machine, because the GPU is not known."
    else:
        return None, "The driver does not report the memory, and the GPU is not known."
    facts = known or GPU(
        name=device_name,
        device_name=device_name,
        total_memory_bytes=total_bytes,
        compute_capability=capability,
        is_integrated=memory is None,
        total_basis="assumed",
        source=note,
    )
    return _as_attached(facts, device_name, capability, memory or system), note


def _known(device_name: str, memory: PlannedMemory | None) -> GPU | None:
    """Return the catalogue's GPU of that name, if its memory is the same."""
    try:
        known = GPU.named(device_name)
    except PlannerError:
        return None
    if memory is None:
        return known if known.is_integrated else None
    expected_bytes = known.nvml_memory_bytes or known.total_memory_bytes
    difference_bytes = abs(memory.total_bytes - expected_bytes)
    return known if difference_bytes <= _SAME_MEMORY * expected_bytes else None


def _as_attached(
    facts: GPU,
    device_name: str,
    compute_capability: tuple[int, int],
    memory: PlannedMemory | None,
) -> GPU:
    """Return the GPU with the name, capability and free memory that were reported."""
    free_bytes = None
    if memory is not None:
        free_bytes = min(memory.free_bytes, facts.total_memory_bytes)
    return replace(
        facts,
        device_name=device_name,
        compute_capability=compute_capability,
        free_memory_bytes=free_bytes,
        nvml_memory_bytes=(
            None if memory is None or facts.is_integrated else memory.total_bytes
        ),
    )


def _derived(memory: PlannedMemory) -> str:
    shown = format_gib(memory.total_bytes)
    if memory.reserved_bytes is None:
        return f"Total of nvidia-smi, {shown}; the CUDA runtime reports a little less."
    kept = format_gib(memory.reserved_bytes)
    return f"Total of nvidia-smi, {shown}, less {kept} that the driver keeps."


def system_memory(path: Path = Path("/proc/meminfo")) -> PlannedMemory | None:
    """Return the machine's memory, as vLLM counts it on integrated GPUs.

    Source: vLLM 0.33.0 `utils/mem_utils.py` MemorySnapshot: on integrated GPUs, free
    memory is the operating system's available memory.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    kib = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(":") for line in lines)
        if name in ("MemTotal", "MemAvailable")
    }
    if len(kib) < len(("MemTotal", "MemAvailable")):
        return None
    return PlannedMemory(
        total_bytes=kib["MemTotal"] * KIB,
        free_bytes=kib["MemAvailable"] * KIB,
        reserved_bytes=None,
    )
