"""A stand-in for nvidia-ml-py that answers for some boards as the driver does."""

from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

from planner.units import MIB


class NVMLError(Exception):
    """As in pynvml: one class, and a subclass for each code."""


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801, N818 - pynvml's name
    pass


class NVMLError_NotSupported(NVMLError):  # noqa: N801, N818 - pynvml's name
    pass


class NVMLError_GpuIsLost(NVMLError):  # noqa: N801, N818 - pynvml's name
    pass


@dataclass
class Board:
    """A GPU, or a slice, as the driver knows it."""

    name: str = "NVIDIA H100 80GB HBM3"
    uuid: str = "GPU-11111111-aaaa"
    capability: tuple[int, int] | None = (9, 0)
    total_mib: int | None = 81559
    reserved_mib: int | None = 470
    used_mib: int = 0
    compute: tuple[tuple[int, int | None], ...] = ()
    graphics: tuple[tuple[int, int | None], ...] = ()
    slices: tuple["Board | None", ...] | None = None
    is_lost: bool = False


@dataclass
class FakeDriver:
    """Builds a module that answers for some boards as nvidia-ml-py does."""

    boards: list[Board]
    names: dict[int, str] = field(default_factory=dict)
    init_error: NVMLError | None = None
    shutdowns: int = 0

    def module(self) -> ModuleType:
        module = ModuleType("pynvml")
        facts: dict[str, Any] = {
            "NVMLError": NVMLError,
            "NVML_DEVICE_MIG_ENABLE": 1,
            "nvmlMemory_v2": 33554472,
            "nvmlInit": self._init,
            "nvmlShutdown": self._shutdown,
            "nvmlSystemGetDriverVersion": lambda: "580.95.05",
            "nvmlDeviceGetCount": lambda: len(self.boards),
            "nvmlDeviceGetHandleByIndex": self._handle,
            "nvmlDeviceGetHandleByUUID": self._by_uuid,
            "nvmlDeviceGetName": lambda board: board.name,
            "nvmlDeviceGetUUID": lambda board: board.uuid,
            "nvmlDeviceGetCudaComputeCapability": self._capability,
            "nvmlDeviceGetMemoryInfo": self._memory,
            "nvmlDeviceGetMigMode": self._mig_mode,
            "nvmlDeviceGetMaxMigDeviceCount": lambda board: len(board.slices),
            "nvmlDeviceGetMigDeviceHandleByIndex": self._slice,
            "nvmlDeviceGetComputeRunningProcesses": lambda b: self._held(b.compute),
            "nvmlDeviceGetGraphicsRunningProcesses": lambda b: self._held(b.graphics),
            "nvmlSystemGetProcessName": self._process_name,
        }
        vars(module).update(facts)
        return module

    def _init(self) -> None:
        if self.init_error:
            raise self.init_error

    def _shutdown(self) -> None:
        self.shutdowns += 1

    def _handle(self, index: int) -> Board:
        if self.boards[index].is_lost:
            raise NVMLError_GpuIsLost("GPU is lost")
        return self.boards[index]

    def _by_uuid(self, uuid: str) -> Board:
        for board in self.boards:
            if board.uuid == uuid:
                return board
        raise NVMLError("Not Found")

    def _capability(self, board: Board) -> tuple[int, int]:
        if board.capability is None:
            raise NVMLError_NotSupported("Not Supported")
        return board.capability

    def _memory(self, board: Board, version: int | None = None) -> SimpleNamespace:
        if board.total_mib is None or (version and board.reserved_mib is None):
            raise NVMLError_NotSupported("Not Supported")
        total, reserved = board.total_mib * MIB, (board.reserved_mib or 0) * MIB
        used = board.used_mib * MIB
        free = total - used - reserved
        if version:
            return SimpleNamespace(total=total, free=free, used=used, reserved=reserved)
        return SimpleNamespace(total=total, free=free, used=used + reserved)

    def _mig_mode(self, board: Board) -> list[int]:
        if board.slices is None:
            raise NVMLError_NotSupported("Not Supported")
        return [1, 1]

    def _slice(self, board: Board, number: int) -> Board:
        found = (board.slices or ())[number]
        if found is None:
            raise NVMLError("Not Found")
        return found

    def _held(self, processes: tuple[tuple[int, int | None], ...]) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in processes]

    def _process_name(self, pid: int) -> str:
        if pid not in self.names:
            raise NVMLError("Not Found")
        return self.names[pid]
