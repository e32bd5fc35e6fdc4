"""Finds the record of the start that a plan is made for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.calibrations.key import Start, key_of
from planner.calibrations.record import Record
from planner.calibrations.store import candidates
from planner.gpu import GPU
from planner.result import RankMemory
from planner.units import format_gib


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A record that fits a plan, if there is one, and what a reader must know."""

    record: Record | None = None
    notes: tuple[str, ...] = ()


def find(gpu: GPU, start: Start) -> Found:
    """Return what was measured for the same start on the same GPU."""
    known, notes = candidates(start.release.version, start.model.architecture)
    alike = [record for record in known if record.is_of_kind(gpu)]
    if not alike:
        return Found(notes=notes)
    key = key_of(start)
    same = [record for record in alike if record.key == key]
    fitting = [record for record in same if record.is_of(gpu)]
    if fitting:
        record = max(fitting, key=lambda record: record.date)
        return Found(record=record, notes=(*notes, _used(record)))
    return Found(notes=(*notes, *(_other_total(record, gpu) for record in same[:1])))


def weights_note(ranks: Sequence[RankMemory]) -> tuple[str, ...]:
    """Say where weights took another size than vLLM's code tells."""
    if not any(rank.line("weights").record for rank in ranks):
        return ()
    return (
        "The weights took another size than computed, so the measured one counts. "
        "Please report it: the arithmetic is meant to be exact.",
    )


def _used(record: Record) -> str:
    weights = "random" if record.is_dummy else "real"
    return (
        f"Measured on your {record.device} on {record.day}, with {weights} weights: "
        f"the figures of record {record.id} are used. `planner calibration show "
        f"{record.id}` shows it, `planner calibration forget {record.id}` removes it."
    )


def _other_total(record: Record, gpu: GPU) -> str:
    return (
        f"Record {record.id} measured this start on a {record.device} with "
        f"{format_gib(record.total_memory_bytes)}, the plan's has "
        f"{format_gib(gpu.total_memory_bytes)}, so it is not used. If it is the same "
        f"GPU, plan with planner.GPU.named({gpu.name!r}, "
        f"total_memory_bytes={record.total_memory_bytes})."
    )
