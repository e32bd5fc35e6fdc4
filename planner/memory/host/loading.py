"""Loading a model: what is read from disk, stays in the page cache and goes to GPUs.

Every worker opens every file of a checkpoint and keeps its own part. The operating
system reads a file once and serves all workers of a machine from its page cache, as
long as there is room for it. Other formats divide the work.

Source: vLLM 0.33.0 `model_executor/model_loader/__init__.py` (formats),
`model_executor/model_loader/weight_utils.py` safetensors_weights_iterator,
fastsafetensors_weights_iterator; `sharded_state_loader.py`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from math import ceil

from planner.engine.dtypes import element_bytes
from planner.errors import PlannerError, Refused
from planner.memory.account import Basis
from planner.models.architecture import ModelArchitecture
from planner.units import format_gib
from planner.values import frozen

DISK_BYTES_PER_SECOND = 2 * 10**9
"""Assumed: a cloud machine's disk; local NVMe reads 3 to 7 GB/s."""
PCIE_BYTES_PER_SECOND = 25 * 10**9
"""Assumed: 16 lanes of PCIe 4, at the rate of copies from pinned memory."""
_NOT_MODELLED = ("instanttensor", "ipc_cache", "modelexpress", "bitsandbytes", "gguf")
_UNCACHED = ("runai_streamer", "runai_streamer_sharded")
"""Formats that bypass the page cache or read from object storage."""
_SAFETENSORS = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4}


class FileAccess(StrEnum):
    """Which worker reads which part of a checkpoint."""

    EVERY_WORKER = "every worker reads every file"
    DIVIDED = "the workers read the files between them"
    OWN_PART = "each worker reads a file with its own part"
    NOTHING = "nothing is read"


_FORMATS = {
    **dict.fromkeys(
        ("auto", "hf", "safetensors", "mistral", "pt", "npcache", "runai_streamer"),
        FileAccess.EVERY_WORKER,
    ),
    "fastsafetensors": FileAccess.DIVIDED,
    **dict.fromkeys(
        ("sharded_state", "runai_streamer_sharded", "tensorizer"), FileAccess.OWN_PART
    ),
    "dummy": FileAccess.NOTHING,
}


@frozen
class Loading:
    """The loading of a checkpoint on the machine that loads most of it."""

    load_format: str
    reading: FileAccess
    checkpoint_bytes: int
    checkpoint_basis: Basis
    checkpoint_why: str
    workers: int
    """GPUs of the machine."""
    weights_bytes: int
    """Weights in the memory of the fullest worker."""
    room_bytes: int | None
    """Memory of the machine that nothing else uses; None: not known."""
    disk_bytes_per_second: int = DISK_BYTES_PER_SECOND
    pcie_bytes_per_second: int = PCIE_BYTES_PER_SECOND
    is_speed_given: bool = False

    @property
    def read_bytes(self) -> int:
        """The most that the machine's workers read from the file system."""
        if self.reading is FileAccess.EVERY_WORKER:
            return self.workers * self.checkpoint_bytes
        if self.reading is FileAccess.DIVIDED:
            return self.checkpoint_bytes
        if self.reading is FileAccess.OWN_PART:
            return self.workers * self.weights_bytes
        return 0

    @property
    def page_cache_bytes(self) -> int:
        """What may stay in the page cache; it is freed as soon as memory is needed."""
        if self.load_format in _UNCACHED:
            return 0
        distinct = min(self.read_bytes, self.checkpoint_bytes)
        if self.reading is FileAccess.OWN_PART:
            distinct = self.read_bytes
        return distinct if self.room_bytes is None else min(distinct, self._room)

    @property
    def disk_bytes(self) -> int:
        """What is read from disk: each byte once where the page cache holds it."""
        is_shared = self.reading is FileAccess.EVERY_WORKER
        if not is_shared or self.load_format in _UNCACHED:
            return self.read_bytes
        return self.checkpoint_bytes if self._is_cached else self.read_bytes

    @property
    def seconds(self) -> float:
        """The time to read and then to copy to the GPUs, one after the other."""
        from_disk = self.disk_bytes / self.disk_bytes_per_second
        return from_disk + self._to_gpu_bytes / self.pcie_bytes_per_second

    @property
    def reading_why(self) -> str:
        """The arithmetic of the bytes read."""
        if self.reading is FileAccess.NOTHING:
            return f"load_format={self.load_format}: weights are random numbers"
        if self.reading is FileAccess.OWN_PART:
            each = f"{self.workers} x {format_gib(self.weights_bytes)}"
            return f"load_format={self.load_format}: {self.reading}, {each}"
        if self.reading is FileAccess.DIVIDED or self.load_format in _UNCACHED:
            return (
                f"load_format={self.load_format}: {self.reading}, "
                f"{format_gib(self.disk_bytes)} in total"
            )
        text = (
            f"{self.reading}: at most {self.workers} x "
            f"{format_gib(self.checkpoint_bytes)} = {format_gib(self.read_bytes)}"
        )
        if self._is_cached:
            return f"{text}; the page cache serves all but the first"
        return f"{text}; the page cache has room for only {format_gib(self._room)}"

    @property
    def seconds_why(self) -> str:
        """The arithmetic of the time, and whether its speeds are given or assumed."""
        whose = "given" if self.is_speed_given else "assumed"
        return (
            f"{format_gib(self.disk_bytes)} at {_speed(self.disk_bytes_per_second)} + "
            f"{format_gib(self._to_gpu_bytes)} for each GPU at "
            f"{_speed(self.pcie_bytes_per_second)} ({whose}) = {ceil(self.seconds)} s; "
            "compiling, graphs and repacking weights come on top"
        )

    @property
    def basis(self) -> Basis:
        """How the time is known."""
        return Basis.FORMULA if self.is_speed_given else Basis.ASSUMED

    def at(
        self,
        *,
        disk_gb_per_second: float | None = None,
        pcie_gb_per_second: float | None = None,
    ) -> Loading:
        """Return the same with a machine's own speeds, in 10^9 bytes per second.

        Raises:
            PlannerError: for a speed that is not above 0.
        """
        disk = _speed_of("disk_gb_per_second", disk_gb_per_second)
        pcie = _speed_of("pcie_gb_per_second", pcie_gb_per_second)
        return replace(
            self,
            disk_bytes_per_second=disk or self.disk_bytes_per_second,
            pcie_bytes_per_second=pcie or self.pcie_bytes_per_second,
            is_speed_given=bool(disk and pcie),
        )

    @property
    def _room(self) -> int:
        return max(self.room_bytes or 0, 0)

    @property
    def _is_cached(self) -> bool:
        return self.room_bytes is None or self.checkpoint_bytes <= self._room

    @property
    def _to_gpu_bytes(self) -> int:
        return 0 if self.reading is FileAccess.NOTHING else self.weights_bytes


def _speed(bytes_per_second: int) -> str:
    return f"{bytes_per_second / 10**9:g} GB/s"


def _speed_of(name: str, given: object) -> int | None:
    if given is None:
        return None
    if (
        not isinstance(given, int | float)
        or isinstance(given, bool)
        or not 0 < given <= 10**6
    ):
        raise PlannerError(f"{name}={given!r}: a number of GB/s above 0 is needed.")
    return max(int(given * 10**9), 1)


def reading_of(load_format: str) -> FileAccess | None:
    """Return how a format is read; None where it is not modelled.

    Raises:
        Refused: in vLLM's words, for a format that does not exist.

    Source: vLLM 0.33.0 `model_executor/model_loader/__init__.py` get_model_loader;
    0.9.2 and later `config/load.py` LoadFormat.
    """
    if load_format in _NOT_MODELLED:
        return None
    found = _FORMATS.get(load_format)
    if found is None:
        raise Refused(f"Load format `{load_format}` is not supported")
    return found


def checkpoint_size(
    model: ModelArchitecture, loaded_bytes: int
) -> tuple[int, Basis, str]:
    """Return the bytes of a checkpoint's files, their basis and their source.

    `loaded_bytes` are all weights on the GPUs, each counted once.
    """
    files = model.files
    if files is not None and files.checkpoint_bytes:
        return files.checkpoint_bytes, Basis.EXACT, "as the files' headers say"
    if files is not None and files.num_parameters_by_dtype:
        size = sum(
            count * _safetensors_bytes(dtype)
            for dtype, count in files.num_parameters_by_dtype.items()
        )
        counted = " + ".join(
            f"{count:,} {dtype}"
            for dtype, count in files.num_parameters_by_dtype.items()
        )
        return size, Basis.FORMULA, f"parameters as published: {counted}"
    return loaded_bytes, Basis.FORMULA, "about as much as the GPUs hold together"


def _safetensors_bytes(dtype: str) -> int:
    if dtype in _SAFETENSORS:
        return _SAFETENSORS[dtype]
    if dtype in ("F16", "BF16", "I16", "U16"):
        return element_bytes("bfloat16")
    return 1


def loading_of(  # noqa: PLR0913 - what it depends on
    model: ModelArchitecture,
    reading: FileAccess,
    load_format: str,
    *,
    workers: int,
    weights_bytes: int,
    loaded_bytes: int,
    room_bytes: int | None,
) -> Loading:
    """Return what loading reads on one machine."""
    size, basis, why = checkpoint_size(model, loaded_bytes)
    return Loading(
        load_format=load_format,
        reading=reading,
        checkpoint_bytes=size,
        checkpoint_basis=basis,
        checkpoint_why=why,
        workers=workers,
        weights_bytes=weights_bytes,
        room_bytes=room_bytes,
    )
