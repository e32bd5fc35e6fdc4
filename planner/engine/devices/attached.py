"""The attached GPUs, read from the NVIDIA driver through NVML.

`survey` returns those that a CUDA program started now would see, by
CUDA_VISIBLE_DEVICES. CUDA itself is not initialised: that would take memory on the GPU.
NVML needs the driver and the package nvidia-ml-py; if either is missing, `survey` gives
the reason.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol, TypeAlias, TypeVar

from planner.engine.devices.planned_gpu import PlannedMemory, planned_gpu, system_memory
from planner.engine.devices.processor import processor_gpu
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.surroundings import NO_HARDWARE, is_in_browser, is_published
from planner.units import format_gib, whole_number
from planner.values import frozen

Answer: TypeAlias = Any
"""NVML's functions return different types, and the binding is untyped."""

_REASONS = {
    "NVMLError_LibraryNotFound": "No NVIDIA driver is installed on this machine",
    "NVMLError_DriverNotLoaded": "The NVIDIA driver is installed but not loaded",
    "NVMLError_NoPermission": "This user may not query the NVIDIA driver",
    "NVMLError_LibRmVersionMismatch": (
        "The NVIDIA driver and its library are of different versions; "
        "restart the machine"
    ),
}
_NOT_INSTALLED = (
    "The attached GPUs cannot be read: "
    "install NVML's Python binding with `pip install nvidia-ml-py`."
)


@frozen
class Process:
    """A process that holds memory on a GPU."""

    pid: int
    name: str
    """Empty if the driver does not report it, as inside a container."""
    used_memory_bytes: int | None
    """None if the driver does not report it (WSL, unified memory)."""


@frozen
class AttachedGPU:
    """A GPU of this machine, or a MIG slice of one."""

    index: int
    """NVML's number, in the order of the PCI bus; for a slice, that of its GPU."""
    uuid: str
    device_name: str
    compute_capability: tuple[int, int] | None
    nvml_memory_bytes: int | None
    """What nvidia-smi shows; None for unified memory."""
    free_memory_bytes: int | None
    processes: tuple[Process, ...]
    is_mig_slice: bool
    gpu: GPU | None
    """The GPU to plan with; None if too little is known."""
    total_note: str
    """Where the CUDA runtime's total comes from, which differs from NVML's."""


@frozen
class Survey:
    """The GPUs that were found on this machine."""

    gpus: tuple[AttachedGPU, ...]
    """Those that a CUDA program started now can use; of MIG slices it uses one."""
    reason: str = ""
    """Why there are no GPUs; empty if there are some."""
    driver_version: str = ""
    notes: tuple[str, ...] = ()
    """What was skipped: a GPU that does not answer, MIG mode without slices."""

    def planning_gpu(self, position: int = 0) -> GPU:
        """Return the GPU to plan with at CUDA's number `position`.

        Raises:
            PlannerError: if there is none, with the reason.
        """
        if not self.gpus:
            raise PlannerError(
                f"No attached GPU to plan for. {self.reason} Name the GPU that the "
                'plan is for, such as gpu="H100" (`planner gpus` lists all), or plan '
                'for this machine\'s processor: gpu="CPU".'
            )
        if not 0 <= position < len(self.gpus):
            raise PlannerError(
                f"There is no GPU {position}: 0 to {len(self.gpus) - 1} are visible."
            )
        attached = self.gpus[position]
        if attached.gpu is None:
            raise PlannerError(f"{attached.device_name}: {attached.total_note}")
        return attached.gpu


class Numbered(Protocol):
    """A GPU or MIG slice, with what CUDA_VISIBLE_DEVICES can name it by."""

    @property
    def index(self) -> int:
        """NVML's number; for a slice, that of its GPU."""

    @property
    def uuid(self) -> str:
        """GPU-..., or MIG-... for a slice."""


Device = TypeVar("Device", bound=Numbered)


def visible(devices: Sequence[Device], setting: str | None) -> tuple[Device, ...]:
    """Return the devices that CUDA_VISIBLE_DEVICES leaves visible, in CUDA's order.

    Entries are numbers or the beginning of a UUID. As in CUDA, the list ends at the
    first entry that names nothing; here also at one that names a device again. A number
    means a whole GPU, or its first slice where it is divided into slices.

    Args:
        devices: all devices in NVML's order, which is that of the PCI bus. CUDA numbers
            them the same way only with equal GPUs or CUDA_DEVICE_ORDER=PCI_BUS_ID.
        setting: the variable's value; None if it is not set.

    Source: CUDA C++ Programming Guide, section "CUDA Environment Variables".
    """
    if setting is None:
        return tuple(devices)
    chosen: list[Device] = []
    for entry in setting.split(","):
        device = _named_by(entry.strip(), devices)
        if device is None or device in chosen:
            break
        chosen.append(device)
    return tuple(chosen)


def _named_by(entry: str, devices: Sequence[Device]) -> Device | None:
    """Return the device that an entry names; None if none or several match."""
    number = whole_number(entry)
    if number is not None:
        at_number = (device for device in devices if device.index == number)
        return next(at_number, None)
    beginning = entry.lower()
    if not beginning.startswith(("gpu-", "mig-")):
        return None
    matching = [one for one in devices if one.uuid.lower().startswith(beginning)]
    return matching[0] if len(matching) == 1 else None


def attached_line(attached: AttachedGPU) -> str:
    """Write an attached GPU as one line of a list, with the processes that use it."""
    free, total = attached.free_memory_bytes, attached.nvml_memory_bytes
    memory = "memory shared with the system" if total is None else format_gib(total)
    available = "" if free is None else f", {format_gib(free)} free"
    holders = ", ".join(
        f"{process.name or 'process'} {process.pid}" for process in attached.processes
    )
    held = f"; held by {holders}" if holders else ""
    return f"{attached.index}  {attached.device_name}  {memory}{available}{held}"


def first_attached() -> GPU:
    """Return this machine's first GPU, to plan with.

    Raises:
        PlannerError: if there is none, with the reason.
    """
    return survey().planning_gpu()


def processor_line() -> str:
    """Write this machine's processor as one line; empty if it is unknown."""
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
    """Return the attached GPUs; none without a driver (`survey` says why)."""
    return survey().gpus


def survey(
    *, nvml: ModuleType | None = None, environment: Mapping[str, str] | None = None
) -> Survey:
    """Query the driver for its GPUs; a machine without any is not an error.

    Args:
        nvml: the binding to use; None for the installed pynvml.
        environment: environment variables; None for this process's.
    """
    if is_published():
        return Survey(gpus=(), reason=NO_HARDWARE)
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
        _call(nvml, "nvmlShutdown")


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
        driver_version=_text(_call(nvml, "nvmlSystemGetDriverVersion")),
        notes=tuple(notes),
    )


def _why_none(attached: list[AttachedGPU], setting: str | None) -> str:
    if attached:
        return f"CUDA_VISIBLE_DEVICES={setting!r} hides all {len(attached)} of them."
    return "The NVIDIA driver answers but reports no GPU."


def _at_index(nvml: ModuleType, index: int, notes: list[str]) -> list[AttachedGPU]:
    """Return the GPU of a number, or its slices if it is divided into slices."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    mode = _call(nvml, "nvmlDeviceGetMigMode", handle)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return [_attached(nvml, handle, index)]
    slices = [
        _attached(nvml, one, index, parent=handle) for one in _slices(nvml, handle)
    ]
    if not slices:
        notes.append(f"GPU {index} is in MIG mode but has no slices.")
    return slices


def _slices(nvml: ModuleType, handle: object) -> Iterator[object]:
    count = _call(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    for number in range(count):
        one = _call(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        # For a number without a slice, NVML raises NotFound.
        if one is not None:
            yield one


def _attached(
    nvml: ModuleType, handle: object, index: int, parent: object = None
) -> AttachedGPU:
    whole = handle if parent is None else parent
    capability = _call(nvml, "nvmlDeviceGetCudaComputeCapability", whole)
    name = _text(nvml.nvmlDeviceGetName(handle))
    memory = _memory(nvml, handle)
    gpu, note = planned_gpu(
        device_name=name,
        compute_capability=tuple(capability) if capability else None,
        memory=memory,
        system=system_memory() if memory is None else None,
    )
    if gpu is not None:
        # Where GPU and processor share one memory, there is no separate host memory.
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
    """Return whether this is the Windows Subsystem for Linux, as vLLM detects it.

    Source: vLLM 0.33.0 `platforms/interface.py` in_wsl.
    """
    return "microsoft" in platform.uname().release.lower()


def _memory(nvml: ModuleType, handle: object) -> PlannedMemory | None:
    """Return the memory that NVML reports; None where GPU and CPU share one memory."""
    version = getattr(nvml, "nvmlMemory_v2", None)
    info = version and _call(nvml, "nvmlDeviceGetMemoryInfo", handle, version)
    if info:
        return PlannedMemory(
            total_bytes=info.total, free_bytes=info.free, reserved_bytes=info.reserved
        )
    # Drivers before 510 have the first version only, which counts what the driver
    # reserves as used.
    info = _call(nvml, "nvmlDeviceGetMemoryInfo", handle)
    if not info:
        return None
    return PlannedMemory(
        total_bytes=info.total, free_bytes=info.free, reserved_bytes=None
    )


def _processes(nvml: ModuleType, handle: object) -> Iterator[Process]:
    """Yield each process once; NVML lists one that computes and renders twice."""
    seen: set[int] = set()
    for kind in ("Compute", "Graphics"):
        function = f"nvmlDeviceGet{kind}RunningProcesses"
        for process in _call(nvml, function, handle) or ():
            if process.pid not in seen:
                seen.add(process.pid)
                name = _text(_call(nvml, "nvmlSystemGetProcessName", process.pid))
                yield Process(
                    pid=process.pid,
                    name=name,
                    used_memory_bytes=process.usedGpuMemory,
                )


def _call(nvml: ModuleType, name: str, *arguments: object) -> Answer:
    """Call a function of NVML; None if driver or binding do not support it."""
    function = getattr(nvml, name, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return None


def _text(answer: str | bytes | None) -> str:
    """Return an answer as text: older bindings return bytes."""
    if isinstance(answer, bytes):
        return answer.decode(errors="replace")
    return answer or ""
