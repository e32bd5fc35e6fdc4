"""One measured start as it is kept: under what, by whom, and the figures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from planner.calibrations.key import Key, as_text
from planner.gpu import GPU
from planner.units import MIB

SCHEMA = 1
KIND = "vllm-memory-planner calibration"
_ID_DIGITS = 10
_TOO_LARGE = 1 << 63
_SAME_TOTAL_BYTES = MIB
_OTHER_DRIVER = 0.0025
"""Drivers keep other amounts of one card for themselves: 80 MiB of 80 GiB, say."""


class NotARecord(ValueError):  # noqa: N818 - reads as the sentence it is
    """A file or an entry that is no record of this schema, and why."""


class NewerRecord(NotARecord):
    """A record that a later version of the planner wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredLines:
    """A measured figure, and the lines of a plan that it is the sum of."""

    covers: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRank:
    """What one pipeline stage measured: the rank that had the least left."""

    pp_rank: int
    lines: tuple[CoveredLines, ...]
    """Without the KV cache and the CUDA graphs."""
    cudagraph_estimate_bytes: int | None
    """By vLLM's trial capture, whether or not it was charged."""
    figures: tuple[tuple[str, int], ...]
    """All that the worker told, under the names of its own account."""

    def figure(self, name: str) -> int | None:
        """Return one of the worker's figures; None where it told none."""
        return dict(self.figures).get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A start that was measured."""

    key: Key
    gpu_name: str
    """In the catalogue."""
    device_name: str
    """As the driver reports it; empty where it does not."""
    total_memory_bytes: int
    """Of the GPU, as vLLM saw it."""
    date: str
    """ISO date or time of the start."""
    model_name: str
    """As it was called then; other models of the same shape use the record as well."""
    entrypoint: str
    driver_version: str
    is_dummy: bool
    """Whether the weights were random numbers; their memory is the same."""
    is_compile_cache_cold: bool | None
    captured_graph_bytes: int | None = None
    """What CUDA graphs took in the end; None where the log does not tell of whom."""
    ranks: tuple[MeasuredRank, ...]

    @property
    def id(self) -> str:
        """Short name, the same for every start under the same key on the same GPU."""
        parts = (
            *asdict(self.key).values(),
            self.device_name or self.gpu_name,
            str(self.total_memory_bytes // MIB),
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_ID_DIGITS]

    @property
    def device(self) -> str:
        """The GPU by the driver's name, or the catalogue's."""
        return self.device_name or self.gpu_name

    @property
    def day(self) -> str:
        """Date without the time."""
        return self.date[:10]

    def rank(self, pp_rank: int) -> MeasuredRank | None:
        """Return what a pipeline stage measured; None where it told nothing."""
        return next((rank for rank in self.ranks if rank.pp_rank == pp_rank), None)

    def is_of(self, gpu: GPU) -> bool:
        """Return whether it was measured on such a GPU, with as much memory."""
        apart = abs(gpu.total_memory_bytes - self.total_memory_bytes)
        return self.is_of_kind(gpu) and apart <= _SAME_TOTAL_BYTES

    def corrects(self, gpu: GPU) -> bool:
        """Return whether it tells the total of such a card better than a catalogue."""
        apart = abs(gpu.total_memory_bytes - self.total_memory_bytes)
        return (
            bool(self.device_name)
            and self.device_name == gpu.device_name
            and not gpu.is_cpu
            and gpu.total_basis != "given"
            and apart <= _OTHER_DRIVER * gpu.total_memory_bytes
        )

    def is_of_kind(self, gpu: GPU) -> bool:
        """Return whether it was measured on a GPU of that name."""
        if gpu.device_name and self.device_name:
            return gpu.device_name == self.device_name
        return gpu.name == self.gpu_name


def to_dict(record: Record) -> dict[str, Any]:
    """Return a record as its file holds it."""
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
        "ranks": [_rank_dict(rank) for rank in record.ranks],
    }


def _rank_dict(rank: MeasuredRank) -> dict[str, Any]:
    return {
        "pp_rank": rank.pp_rank,
        "lines": [
            {"covers": list(line.covers), "size_bytes": line.size_bytes}
            for line in rank.lines
        ],
        "cudagraph_estimate_bytes": rank.cudagraph_estimate_bytes,
        "figures": dict(rank.figures),
    }


def from_dict(entry: object) -> Record:
    """Read a record, believing nothing.

    Raises:
        NotARecord: saying which field is not as it should be.
        NewerRecord: for a schema of a later version.
    """
    told = _Fields(entry)
    if told.text("kind") != KIND:
        raise NotARecord("it was not written by the planner")
    if told.whole("schema") > SCHEMA:
        raise NewerRecord("a later version of the planner wrote it")
    if told.whole("schema") != SCHEMA:
        raise NotARecord(f"its schema is not {SCHEMA}")
    gpu, model = told.part("gpu"), told.part("model")
    key = Key(
        vllm_version=told.text("vllm_version"),
        architecture=model.text("architecture"),
        fingerprint=model.text("fingerprint"),
        settings=as_text(told.part("settings").values),
    )
    record = Record(
        key=key,
        gpu_name=gpu.text("name"),
        device_name=gpu.text("device_name"),
        total_memory_bytes=gpu.whole("total_memory_bytes"),
        driver_version=gpu.text("driver_version"),
        date=_date(told.text("date")),
        model_name=model.text("name"),
        entrypoint=told.text("entrypoint"),
        is_dummy=told.switch("is_dummy") is True,
        is_compile_cache_cold=told.switch("is_compile_cache_cold"),
        captured_graph_bytes=told.whole_or_none("captured_graph_bytes"),
        ranks=tuple(_rank(rank) for rank in told.parts("ranks")),
    )
    if not record.ranks:
        raise NotARecord("it has no ranks")
    if told.text("id") != record.id:
        raise NotARecord("its id does not belong to what it holds")
    return record


def _rank(told: _Fields) -> MeasuredRank:
    figures = told.part("figures")
    return MeasuredRank(
        pp_rank=told.whole("pp_rank"),
        lines=tuple(
            CoveredLines(
                covers=line.texts("covers"), size_bytes=line.whole("size_bytes")
            )
            for line in told.parts("lines")
        ),
        cudagraph_estimate_bytes=told.whole_or_none("cudagraph_estimate_bytes"),
        figures=tuple((name, figures.whole(name)) for name in figures.values),
    )


def _date(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise NotARecord(f"date is {text!r}") from None
    return text


class _Fields:
    """An object of JSON whose fields are checked as they are read."""

    def __init__(self, entry: object) -> None:
        if not isinstance(entry, Mapping):
            raise NotARecord("it is not an object of JSON")
        self.values: Mapping[str, Any] = entry

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if not _is_text(value):
            raise NotARecord(f"{name} is no text")
        return str(value)

    def whole(self, name: str) -> int:
        value = self.values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise NotARecord(f"{name} is no whole number")
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
            raise NotARecord(f"{name} is no list")
        return [_Fields(entry) for entry in value]

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name)
        if not isinstance(value, list) or not all(map(_is_text, value)):
            raise NotARecord(f"{name} is no list of texts")
        return tuple(value)


def _is_text(value: object) -> bool:
    """Return whether a value is a text that a terminal only shows, and never obeys."""
    return isinstance(value, str) and value.isprintable()
