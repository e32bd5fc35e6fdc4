"""One measured start as it is stored: its key, its origin and its figures."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from planner.engine.gpu import GPU
from planner.planning.calibrations.key import Key, as_text
from planner.units import MIB
from planner.values import frozen

SCHEMA = 1
KIND = "vllm-memory-planner calibration"
_ID_DIGITS = 10
_TOO_LARGE = 1 << 63
_SAME_TOTAL_BYTES = MIB
_DRIVER_DIFFERENCE = 0.0025
"""By how much drivers' reserves differ, as a share: 80 MiB of 80 GiB, for example."""
_STALE_SECONDS = 3600
_PREFIX, _SUFFIX = ".", ".part"


class NotARecord(ValueError):  # noqa: N818 - reads as the sentence it is
    """A file or an entry that is not a record of this schema, with the reason."""


class NewerRecord(NotARecord):
    """A record that a later version of the planner wrote."""


@frozen
class CoveredLines:
    """A measured figure, and the lines of a plan whose sum it is."""

    covers: tuple[str, ...]
    size_bytes: int


@frozen
class MeasuredRank:
    """Measurements of one pipeline stage: of its rank with the least memory left."""

    pp_rank: int
    lines: tuple[CoveredLines, ...]
    """Without the KV cache and the CUDA graphs."""
    cudagraph_estimate_bytes: int | None
    """From vLLM's trial capture, whether or not it was charged."""
    figures: tuple[tuple[str, int], ...]
    """All figures that the worker reported, under the names of its own account."""

    def figure(self, name: str) -> int | None:
        """Return one of the worker's figures; None where it did not report it."""
        return dict(self.figures).get(name)


@frozen
class Record:
    """A start that was measured."""

    key: Key
    gpu_name: str
    """Name in the catalogue."""
    device_name: str
    """As the driver reports it; empty where it does not."""
    total_memory_bytes: int
    """Of the GPU, as vLLM saw it."""
    date: str
    """ISO date or time of the start."""
    model_name: str
    """Name of the measured model; others of the same shape use the record as well."""
    entrypoint: str
    driver_version: str
    is_dummy: bool
    """Whether the weights were random numbers; their memory is the same."""
    is_compile_cache_cold: bool | None
    captured_graph_bytes: int | None = None
    """Final size of the CUDA graphs; None where the log does not say for which rank."""
    ranks: tuple[MeasuredRank, ...]

    @property
    def id(self) -> str:
        """Short name, the same for all starts with the same key on the same GPU."""
        parts = (
            *asdict(self.key).values(),
            self.device_name or self.gpu_name,
            str(self.total_memory_bytes // MIB),
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_ID_DIGITS]

    @property
    def device(self) -> str:
        """The GPU's name by the driver, else by the catalogue."""
        return self.device_name or self.gpu_name

    @property
    def day(self) -> str:
        """Date without the time."""
        return self.date[:10]

    def rank(self, pp_rank: int) -> MeasuredRank | None:
        """Return the figures of a pipeline stage; None where there are none."""
        return next((rank for rank in self.ranks if rank.pp_rank == pp_rank), None)

    def is_of(self, gpu: GPU) -> bool:
        """Whether it was measured on such a GPU, with the same amount of memory."""
        apart = abs(gpu.total_memory_bytes - self.total_memory_bytes)
        return self.is_of_kind(gpu) and apart <= _SAME_TOTAL_BYTES

    def corrects(self, gpu: GPU) -> bool:
        """Whether its total is more exact for such a GPU than the catalogue's."""
        apart = abs(gpu.total_memory_bytes - self.total_memory_bytes)
        return (
            bool(self.device_name)
            and self.device_name == gpu.device_name
            and not gpu.is_cpu
            and gpu.total_basis != "given"
            and apart <= _DRIVER_DIFFERENCE * gpu.total_memory_bytes
        )

    def is_of_kind(self, gpu: GPU) -> bool:
        """Whether it was measured on a GPU of that name."""
        if gpu.device_name and self.device_name:
            return gpu.device_name == self.device_name
        return gpu.name == self.gpu_name


def to_dict(record: Record) -> dict[str, Any]:
    """Return a record as the JSON object of its file."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "id": record.id,
        "date": record.date,
        "gpu": {
            "name": record.gpu_name,
            "device_name": record.device_name,
            "total_memory_bytes": record.total_memory_bytes,
            "driver_version": record.driver_version,
        },
        "vllm_version": record.key.vllm_version,
        "model": {
            "name": record.model_name,
            "architecture": record.key.architecture,
            "fingerprint": record.key.fingerprint,
        },
        "settings": json.loads(record.key.settings),
        "entrypoint": record.entrypoint,
        "is_dummy": record.is_dummy,
        "is_compile_cache_cold": record.is_compile_cache_cold,
        "captured_graph_bytes": record.captured_graph_bytes,
        "ranks": [rank_dict(rank) for rank in record.ranks],
    }


def from_dict(entry: object) -> Record:
    """Parse an untrusted record.

    Raises:
        NotARecord: naming the invalid field.
        NewerRecord: for a schema of a later version.
    """
    fields = _Fields(entry)
    if fields.text("kind") != KIND:
        raise NotARecord("it was not written by the planner")
    if fields.whole("schema") > SCHEMA:
        raise NewerRecord("a later version of the planner wrote it")
    if fields.whole("schema") != SCHEMA:
        raise NotARecord(f"its schema is not {SCHEMA}")
    gpu, model = fields.part("gpu"), fields.part("model")
    key = Key(
        vllm_version=fields.text("vllm_version"),
        architecture=model.text("architecture"),
        fingerprint=model.text("fingerprint"),
        settings=as_text(fields.part("settings").values),
    )
    record = Record(
        key=key,
        gpu_name=gpu.text("name"),
        device_name=gpu.text("device_name"),
        total_memory_bytes=gpu.whole("total_memory_bytes"),
        driver_version=gpu.text("driver_version"),
        date=_date(fields.text("date")),
        model_name=model.text("name"),
        entrypoint=fields.text("entrypoint"),
        is_dummy=fields.switch("is_dummy") is True,
        is_compile_cache_cold=fields.switch("is_compile_cache_cold"),
        captured_graph_bytes=fields.whole_or_none("captured_graph_bytes"),
        ranks=tuple(_rank(rank) for rank in fields.parts("ranks")),
    )
    if not record.ranks:
        raise NotARecord("it has no ranks")
    if fields.text("id") != record.id:
        raise NotARecord("its id does not belong to what it holds")
    return record


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path` atomically: readers see the old file or the new one.

    The text goes to a temporary file beside it first, so that concurrent writers do not
    mix. Temporary files that a crash left behind are removed after an hour.

    Raises:
        OSError: without room or permission; the old file is unchanged.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_stale_parts(path.parent)
    part = path.with_name(f"{_PREFIX}{path.name}.{uuid4().hex}{_SUFFIX}")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    _sync_folder(path.parent)


def move_aside(path: Path, seen: os.stat_result) -> Path | None:
    """Rename a file to its name and `.set-aside`, without replacing another file.

    Returns None where the file is no longer the one that was `seen`.

    Raises:
        OSError: where it cannot be renamed.
    """
    for number in range(1, 1000):
        end = ".set-aside" if number == 1 else f".set-aside-{number}"
        target = path.with_name(path.name + end)
        try:
            now = path.stat()
            if (now.st_ino, now.st_mtime_ns) != (seen.st_ino, seen.st_mtime_ns):
                return None
            _rename_to_new(path, target)
        except FileExistsError:
            continue
        except FileNotFoundError:  # another process was faster
            return None
        return target
    raise FileExistsError(f"{path.name} was set aside too often")


def rank_dict(rank: MeasuredRank) -> dict[str, Any]:
    """Return what was measured of a rank as plain values, sizes in whole bytes."""
    return {
        "pp_rank": rank.pp_rank,
        "lines": [
            {"covers": list(line.covers), "size_bytes": line.size_bytes}
            for line in rank.lines
        ],
        "cudagraph_estimate_bytes": rank.cudagraph_estimate_bytes,
        "figures": dict(rank.figures),
    }


def _rank(fields: _Fields) -> MeasuredRank:
    figures = fields.part("figures")
    return MeasuredRank(
        pp_rank=fields.whole("pp_rank"),
        lines=tuple(
            CoveredLines(
                covers=line.texts("covers"), size_bytes=line.whole("size_bytes")
            )
            for line in fields.parts("lines")
        ),
        cudagraph_estimate_bytes=fields.whole_or_none("cudagraph_estimate_bytes"),
        figures=tuple((name, figures.whole(name)) for name in figures.values),
    )


def _date(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise NotARecord(f"date is {text!r}") from None
    return text


class _Fields:
    """A JSON object whose fields are checked as they are read."""

    def __init__(self, entry: object) -> None:
        if not isinstance(entry, Mapping):
            raise NotARecord("it is not an object of JSON")
        self.values: Mapping[str, Any] = entry

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if not _is_text(value):
            raise NotARecord(f"{name} is not text")
        return str(value)

    def whole(self, name: str) -> int:
        value = self.values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise NotARecord(f"{name} is not a whole number")
        if abs(value) >= _TOO_LARGE:
            raise NotARecord(f"{name} is too large a number")
        return value

    def whole_or_none(self, name: str) -> int | None:
        return None if self.values.get(name) is None else self.whole(name)

    def switch(self, name: str) -> bool | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise NotARecord(f"{name} is neither true nor false")
        return value

    def part(self, name: str) -> _Fields:
        return _Fields(self.values.get(name))

    def parts(self, name: str) -> list[_Fields]:
        value = self.values.get(name)
        if not isinstance(value, list):
            raise NotARecord(f"{name} is not a list")
        return [_Fields(entry) for entry in value]

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name)
        if not isinstance(value, list) or not all(map(_is_text, value)):
            raise NotARecord(f"{name} is not a list of texts")
        return tuple(value)


def _is_text(value: object) -> bool:
    """Whether a value is a string without control characters for a terminal."""
    return isinstance(value, str) and value.isprintable()


def _rename_to_new(path: Path, target: Path) -> None:
    """Rename without replacing a file: add a hard link, then remove the old name."""
    try:
        target.hardlink_to(path)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # a file system without hard links
        if target.exists():
            raise FileExistsError(target.name) from None
        path.rename(target)
        return
    path.unlink()


def _remove_stale_parts(folder: Path) -> None:
    before = time.time() - _STALE_SECONDS
    for part in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            if part.stat().st_mtime < before:
                part.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power failure, where the system supports that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
