"""Finds the records that a plan's figures may come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from planner.calibrations.applying import non_torch_of
from planner.calibrations.key import Start, is_kin, key_of
from planner.calibrations.record import Record
from planner.calibrations.store import candidates
from planner.gpu import GPU
from planner.result import RankMemory
from planner.units import format_gib


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was measured before, as far as it holds for a plan."""

    record: Record | None = None
    """Of the same start on the same GPU."""
    kin: Record | None = None
    """Where there is none: of a start whose memory beside PyTorch's is the same."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the files."""

    def corrected(self, gpu: GPU) -> GPU:
        """Return the GPU with the total that vLLM saw, where a catalogue told it."""
        record = self.record
        if record is None or record.is_of(gpu):
            return gpu
        total, free = record.total_memory_bytes, gpu.free_memory_bytes
        return replace(
            gpu,
            total_memory_bytes=total,
            free_memory_bytes=None if free is None else min(free, total),
            total_basis="measured",
            source=f"record {record.id} of {record.day}",
        )

    def told(self, gpu: GPU, ranks: Sequence[RankMemory]) -> tuple[str, ...]:
        """Return the notes, and which record the ranks' figures come from."""
        used = {line.record for rank in ranks for line in rank.lines}
        notes = self.notes
        if self.record is not None and self.record.id in used:
            notes = (*notes, _used(self.record, gpu))
        elif self.kin is not None and self.kin.id in used:
            notes = (*notes, _used_in_part(self.kin))
        if any(rank.line("weights").record for rank in ranks):
            notes = (*notes, _OTHER_WEIGHTS)
        return notes


def find(gpu: GPU, start: Start) -> Found:
    """Return what was measured for the same start on the same GPU, or for its kin."""
    known, notes = candidates(start.release.version, start.model.architecture)
    alike = [record for record in known if record.is_of_kind(gpu)]
    if not alike:
        return Found(notes=notes)
    key = key_of(start)
    same = [record for record in alike if record.key == key]
    record = _newest(r for r in same if r.is_of(gpu)) or _newest(
        r for r in same if r.corrects(gpu)
    )
    if record is not None:
        return Found(record=record, notes=notes)
    kin = _newest(
        record
        for record in alike
        if (record.is_of(gpu) or record.corrects(gpu))
        and non_torch_of(record, 0) is not None
        and is_kin(record.key, key)
    )
    elsewhere = tuple(_other_total(record, gpu) for record in same[:1])
    return Found(kin=kin, notes=(*notes, *elsewhere))


def _newest(records: Iterable[Record]) -> Record | None:
    return max(records, key=lambda record: record.date, default=None)


def _used(record: Record, gpu: GPU) -> str:
    weights = "random" if record.is_dummy else "real"
    total = ""
    if not record.is_of(gpu):
        total = (
            f" vLLM saw {format_gib(record.total_memory_bytes)} there, so the plan "
            f"counts with them instead of {format_gib(gpu.total_memory_bytes)}."
        )
    return (
        f"Measured on your {record.device} on {record.day}, with {weights} weights: "
        f"the figures of record {record.id} are used.{total} {_commands(record)}"
    )


def _used_in_part(record: Record) -> str:
    return (
        f"Non-torch memory is that of record {record.id}, which measured "
        f"{record.model_name} on your {record.device} on {record.day}. "
        f"{_commands(record)}"
    )


def _commands(record: Record) -> str:
    return (
        f"`planner calibration show {record.id}` shows it, `planner calibration forget "
        f"{record.id}` removes it."
    )


def _other_total(record: Record, gpu: GPU) -> str:
    return (
        f"Record {record.id} measured this start on a {record.device} with "
        f"{format_gib(record.total_memory_bytes)}, the plan's has "
        f"{format_gib(gpu.total_memory_bytes)}, so it is not used. If it is the same "
        f"GPU, plan with planner.GPU.named({gpu.name!r}, "
        f"total_memory_bytes={record.total_memory_bytes})."
    )


_OTHER_WEIGHTS = (
    "The weights took another size than computed, so the measured one counts. Please "
    "report it: the arithmetic is meant to be exact."
)
