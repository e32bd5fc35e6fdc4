"""The attached GPUs, asked of the driver through NVML.

CUDA is not initialised: that would take memory on the GPU it measures. NVML needs the
driver and the package nvidia-ml-py; where either is missing, `survey` says so.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

from planner.errors import PlannerError
from planner.gpu import CPU, GPU
from planner.in_browser import is_in_browser
from planner.published import is_published
from planner.sources.planned_gpu import Memory, planned_gpu, system_memory
from planner.sources.processor import processor_gpu
from planner.sources.visible_devices import visible
from planner.units import format_gib

ATTACHED = "attached"
"""The name under which this machine's first GPU is asked for."""

_PUBLISHED = (
    "This page is for everybody and looks at no hardware of its server. Pick a GPU of "
    "the list."
)

Answer: TypeAlias = Any
"""NVML's answers have as many types as there are questions, and come untyped."""

_REASONS = {
    "NVMLError_LibraryNotFound": "No NVIDIA driver is installed on this machine",
    "NVMLError_DriverNotLoaded": "The NVIDIA driver is installed but not loaded",
    "NVMLError_NoPermission": "This user may not ask the NVIDIA driver",
    "NVMLError_LibRmVersionMismatch": (
        "The NVIDIA driver and its library are of different versions; "
        "restart the machine"
    ),
}
_NOT_INSTALLED = (
    "The attached GPUs cannot be read: "
    "install NVML's Python binding with `pip install nvidia-ml-py`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A program that holds memory on a GPU."""

    pid: int
    name: str
    """Empty where the driver does not tell, as from inside a container."""
    used_memory_bytes: int | None
    """None where the driver does not tell (WSL, unified memory)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedGPU:
    """A GPU of this machine, or a MIG slice of one."""

    index: int
    """NVML's number, in the order of the PCI bus; of a slice, its GPU's."""
    uuid: str
    device_name: str
    compute_capability: tuple[int, int] | None
    nvml_memory_bytes: int | None
    """What nvidia-smi shows; None for unified memory."""
    free_memory_bytes: int | None
    processes: tuple[Process, ...]
    is_mig_slice: bool
    gpu: GPU | None
    """To plan with; None where too little is known."""
    total_note: str
    """How the total that the CUDA runtime reports was found: it differs from NVML's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found on this machine."""

    gpus: tuple[AttachedGPU, ...]
    """Those that a CUDA program started now may use; of MIG slices it takes one."""
    reason: str = ""
    """Why there are none; empty where there are."""
    driver_version: str = ""
    notes: tuple[str, ...] = ()
    """What was left out: a GPU that does not answer, MIG mode without slices."""

    def planning_gpu(self, position: int = 0) -> GPU:
        """Return the GPU at CUDA's number `position`, to plan with.

        Raises:
            PlannerError: where there is none; says why.
        """
        if not self.gpus:
            raise PlannerError(f"No attached GPU to plan for. {self.reason}")
        if not 0 <= position < len(self.gpus):
            raise PlannerError(
                f"There is no GPU {position}: 0 to {len(self.gpus) - 1} are visible."
            )
        attached = self.gpus[position]
        if attached.gpu is None:
            raise PlannerError(f"{attached.device_name}: {attached.total_note}")
        return attached.gpu


def attached_line(attached: AttachedGPU) -> str:
    """Write an attached GPU as one line of a list, and who holds its memory."""
    free, total = attached.free_memory_bytes, attached.nvml_memory_bytes
    memory = "memory shared with the system" if total is None else format_gib(total)
    available = "" if free is None else f", {format_gib(free)} free"
    holders = ", ".join(
        f"{process.name or 'process'} {process.pid}" for process in attached.processes
    )
    held = f"; held by {holders}" if holders else ""
    return f"{attached.index}  {attached.device_name}  {memory}{available}{held}"


def gpu_named(name: str) -> GPU:
    """Return the catalogue's GPU of a name, or for "attached" this machine's first.

    "CPU" is this machine's processor.

    Raises:
        PlannerError: for an unknown name, or where no GPU is attached.
    """
    is_cpu, is_attached = name.strip().upper() == CPU, name.strip().lower() == ATTACHED
    if is_published() and (is_cpu or is_attached):
        raise PlannerError(_PUBLISHED)
    if is_cpu:
        return processor_gpu()
    if is_attached:
        return survey().planning_gpu()
    return GPU.named(name)


def processor_line() -> str:
    """Write this machine's processor as one line; empty where it is not told."""
    if is_published():
        return ""
    try:
        here = processor_gpu()
    except PlannerError:
        return ""
    free = format_gib(here.free_memory_bytes or 0)
    return (
        f"CPU  {here.device_name}  {format_gib(here.total_memory_bytes)}, {free} "
        "available; vLLM's CPU build runs on it: plan with --gpu CPU\n"
    )


def attached_gpus() -> tuple[AttachedGPU, ...]:
    """Return the attached GPUs; none where there is no driver (`survey` says why)."""
    return survey().gpus


def survey(
    *, nvml: ModuleType | None = None, environment: Mapping[str, str] | None = None
) -> Survey:
    """Ask the driver for its GPUs; never raises for a machine without any.

    Args:
        nvml: the module that answers; None for the installed pynvml.
        environment: environment variables; None for this process's.
    """
    if is_published():
        return Survey(gpus=(), reason=_PUBLISHED)
    if is_in_browser():
        return Survey(gpus=(), reason="A browser shows no GPU to Python.")
    if nvml is None:
        try:
            nvml = import_module("pynvml")
        except ImportError:
            return Survey(gpus=(), reason=_NOT_INSTALLED)
    setting = (os.environ if environment is None else environment).get(
        "CUDA_VISIBLE_DEVICES"
    )
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Survey(gpus=(), reason=_reason(error))
    try:
        return _survey(nvml, setting)
    except nvml.NVMLError as error:
        return Survey(gpus=(), reason=_reason(error))
    finally:
        _ask(nvml, "nvmlShutdown")


def _reason(error: Exception) -> str:
    known = _REASONS.get(type(error).__name__, "The NVIDIA driver does not answer")
    return f"{known} (NVML: {error})."


def _survey(nvml: ModuleType, setting: str | None) -> Survey:
    notes: list[str] = []
    attached: list[AttachedGPU] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            attached += _at_index(nvml, index, notes)
        except nvml.NVMLError as error:
            notes.append(f"GPU {index} does not answer (NVML: {error}).")
    gpus = visible(attached, setting)
    return Survey(
        gpus=gpus,
        reason="" if gpus else _why_none(attached, setting),
        driver_version=_text(_ask(nvml, "nvmlSystemGetDriverVersion")),
        notes=tuple(notes),
    )


def _why_none(attached: list[AttachedGPU], setting: str | None) -> str:
    if attached:
        return f"CUDA_VISIBLE_DEVICES={setting!r} hides all {len(attached)} of them."
    return "The NVIDIA driver answers but has no GPU to offer."


def _at_index(nvml: ModuleType, index: int, notes: list[str]) -> list[AttachedGPU]:
    """Return the GPU of a number, or its slices where it is cut into slices."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    mode = _ask(nvml, "nvmlDeviceGetMigMode", handle)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return [_attached(nvml, handle, index)]
    slices = [
        _attached(nvml, one, index, parent=handle) for one in _slices(nvml, handle)
    ]
    if not slices:
        notes.append(f"GPU {index} is in MIG mode but has no slices.")
    return slices


def _slices(nvml: ModuleType, handle: object) -> Iterator[object]:
    count = _ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    for number in range(count):
        one = _ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        # Numbers without a slice answer NotFound.
        if one is not None:
            yield one


def _attached(
    nvml: ModuleType, handle: object, index: int, parent: object = None
) -> AttachedGPU:
    whole = handle if parent is None else parent
    capability = _ask(nvml, "nvmlDeviceGetCudaComputeCapability", whole)
    name = _text(nvml.nvmlDeviceGetName(handle))
    memory = _memory(nvml, handle)
    gpu, note = planned_gpu(
        device_name=name,
        compute_capability=tuple(capability) if capability else None,
        memory=memory,
        system=system_memory() if memory is None else None,
    )
    if gpu is not None:
        # Where GPU and processor share a memory, there is none beside it.
        host = None if memory is None else system_memory()
        gpu = replace(
            gpu,
            is_under_wsl=in_wsl(),
            host_memory_bytes=host.total_bytes if host else None,
        )
    return AttachedGPU(
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        device_name=name,
        compute_capability=tuple(capability) if capability else None,
        nvml_memory_bytes=memory.total_bytes if memory else None,
        free_memory_bytes=gpu.free_memory_bytes if gpu else None,
        processes=tuple(_processes(nvml, handle)),
        is_mig_slice=parent is not None,
        gpu=gpu,
        total_note=note,
    )


def in_wsl() -> bool:
    """Return whether this is Windows' subsystem for Linux, as vLLM finds it.

    Source: vLLM 0.33.0 `platforms/interface.py` in_wsl.
    """
    return "microsoft" in platform.uname().release.lower()


def _memory(nvml: ModuleType, handle: object) -> Memory | None:
    """Return NVML's account; None where GPU and CPU share one memory."""
    version = getattr(nvml, "nvmlMemory_v2", None)
    told = version and _ask(nvml, "nvmlDeviceGetMemoryInfo", handle, version)
    if told:
        return Memory(
            total_bytes=told.total, free_bytes=told.free, reserved_bytes=told.reserved
        )
    # Drivers before 510 know the first version only, which counts what the driver
    # reserves as used.
    told = _ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    if not told:
        return None
    return Memory(total_bytes=told.total, free_bytes=told.free, reserved_bytes=None)


def _processes(nvml: ModuleType, handle: object) -> Iterator[Process]:
    """Yield each process once; one that computes and draws is listed twice."""
    seen: set[int] = set()
    for kind in ("Compute", "Graphics"):
        question = f"nvmlDeviceGet{kind}RunningProcesses"
        for one in _ask(nvml, question, handle) or ():
            if one.pid not in seen:
                seen.add(one.pid)
                yield Process(
                    pid=one.pid,
                    name=_text(_ask(nvml, "nvmlSystemGetProcessName", one.pid)),
                    used_memory_bytes=one.usedGpuMemory,
                )


def _ask(nvml: ModuleType, question: str, *arguments: object) -> Answer:
    """Return NVML's answer; None where driver or binding do not know."""
    function = getattr(nvml, question, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return None


def _text(told: str | bytes | None) -> str:
    """Return text: older bindings answer with bytes."""
    if isinstance(told, bytes):
        return told.decode(errors="replace")
    return told or ""
