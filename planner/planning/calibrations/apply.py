"""Finds the measurements that apply to a plan, and puts them in place of its estimates.

vLLM's account ends in sums, so a measured figure may cover several lines: from 0.27 on,
for example, the memory that remains after the profile run is one figure. Lines that
follow from vLLM's code keep their size, and the remainder of the sum goes to the line
that does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.engine.gpu import GPU
from planner.memory.account import Basis, Line
from planner.memory.estimate import RankMemory
from planner.memory.lines.outside import NOT_CHARGED
from planner.units import MIB, format_gib, format_size
from planner.values import frozen

if TYPE_CHECKING:
    from planner.planning.calibrations.key import Start
    from planner.planning.calibrations.record import (
        CoveredLines,
        MeasuredRank,
        Record,
    )

_WEIGHTS, _GRAPHS = "weights", "CUDA graphs"
_PEAK, _OTHERS = "peak activation", "non-torch"
_SEGMENT_BYTES = 2 * MIB
"""PyTorch allocates memory in segments of this size."""
_REPEATED_BYTES = {
    _PEAK: 32 * MIB,
    _OTHERS: 64 * MIB,
    _GRAPHS: 32 * MIB,
    NOT_CHARGED: 32 * MIB,
}
"""By how much a repeated start may differ: kernels are autotuned, their modules are
loaded lazily, graphs allocate memory in segments. Published starts that were repeated
on one machine agree to vLLM's last digit, 10 MiB."""
_REPEATED_PERCENT = 2
# The line that gets the remainder of a sum: vLLM's code determines it least.
_TAKES_THE_REST = (_OTHERS, _PEAK)
_OTHER_WEIGHTS = (
    "The weights differ from the computed size, so the measured size is used. Please "
    "report it: the arithmetic is meant to be exact."
)


@frozen
class FoundRecords:
    """Stored measurements that apply to a plan."""

    record: Record | None = None
    """Of the same start on the same GPU."""
    kin: Record | None = None
    """Without one: of a start with the same memory outside PyTorch."""
    notes: tuple[str, ...] = ()
    """Messages about the files."""

    def corrected(self, gpu: GPU) -> GPU:
        """Return the GPU with the total that vLLM saw, instead of the catalogue's."""
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

    def notes_for(self, gpu: GPU, ranks: Sequence[RankMemory]) -> tuple[str, ...]:
        """Return the notes, with the record that the ranks' figures come from."""
        used = {line.record for rank in ranks for line in rank.lines}
        notes = self.notes
        if self.record is not None and self.record.id in used:
            notes = (*notes, _used(self.record, gpu))
        elif self.kin is not None and self.kin.id in used:
            notes = (*notes, _used_in_part(self.kin))
        if any(rank.line("weights").record for rank in ranks):
            notes = (*notes, _OTHER_WEIGHTS)
        return notes


def find(gpu: GPU, start: Start) -> FoundRecords:
    """Return the measurements of the same start on the same GPU, or of its kin."""
    from planner.planning.calibrations.key import is_kin, is_same, key_of  # noqa: PLC0415 - few need it
    from planner.planning.calibrations.store import candidates  # noqa: PLC0415 - few need it

    known, notes = candidates(start.release.version, start.model.architecture)
    alike = [record for record in known if record.is_of_kind(gpu)]
    if not alike:
        return FoundRecords(notes=notes)
    key = key_of(start)
    same = [record for record in alike if is_same(record.key, key)]
    record = _newest(r for r in same if r.is_of(gpu)) or _newest(
        r for r in same if r.corrects(gpu)
    )
    if record is not None:
        return FoundRecords(record=record, notes=notes)
    kin = _newest(
        record
        for record in alike
        if (record.is_of(gpu) or record.corrects(gpu))
        and non_torch_of(record, 0) is not None
        and is_kin(record.key, key)
    )
    elsewhere = tuple(_other_total(record, gpu) for record in same[:1])
    return FoundRecords(kin=kin, notes=(*notes, *elsewhere))


def applied(
    lines: Sequence[Line],
    record: Record,
    pp_rank: int,
    *,
    is_cudagraph_charged: bool,
    compile_bytes: int = 0,
) -> tuple[Line, ...]:
    """Return the lines of a rank with the record's figures in place of estimates.

    `compile_bytes` is what a start with a cold compile cache takes temporarily.
    """
    measured = record.rank(pp_rank)
    if measured is None:
        return tuple(lines)
    found = {line.name: line for line in lines}
    found[_WEIGHTS] = _weights(found[_WEIGHTS], measured, record)
    for figure in measured.lines:
        names = [n for n in figure.covers if n in found and n != _WEIGHTS]
        if names:
            size = _without_weights(figure, measured, found[_WEIGHTS])
            found.update(_shared_out([found[name] for name in names], size, record))
    estimate = measured.cudagraph_estimate_bytes
    if is_cudagraph_charged and estimate is not None and _GRAPHS in found:
        found[_GRAPHS] = _line(found[_GRAPHS], estimate, record)
    found[_PEAK] = _compiling(found[_PEAK], record, compile_bytes)
    return tuple(found[line.name] for line in lines)


def captured_applied(rank: RankMemory, record: Record) -> RankMemory:
    """Return a rank with the graphs' measured size, inside and outside the budget."""
    size = record.captured_graph_bytes
    if size is None:
        return rank
    charged = next((n.size_bytes for n in rank.lines if n.name == _GRAPHS), 0)
    note = f"; {format_size(size)} captured - {format_size(charged)} charged"
    return replace(
        rank,
        captured_graph_bytes=size,
        outside=tuple(
            _line(line, size - charged, record, note)
            if line.name == NOT_CHARGED
            else line
            for line in rank.outside
        ),
    )


def non_torch_applied(
    lines: Sequence[Line], record: Record, pp_rank: int
) -> tuple[Line, ...]:
    """Return the lines with the non-torch memory of another start.

    Only where it was measured separately, as up to 0.26: there it hardly depends on the
    model. Of 25 published starts of vLLM 0.19.0 on one H100 each, 23 reported 0.24 to
    0.26 GiB for any model, dtype or quantisation, and two of the Granite family 0.46.
    """
    size = non_torch_of(record, pp_rank)
    if size is None:
        return tuple(lines)
    note = f" of {record.model_name}, of the same family and as many ranks"
    return tuple(
        _line(line, size, record, note) if line.name == _OTHERS else line
        for line in lines
    )


def non_torch_of(record: Record, pp_rank: int) -> int | None:
    """Return non-torch memory where it was measured separately; else None."""
    measured = record.rank(pp_rank)
    for figure in () if measured is None else measured.lines:
        if figure.covers == (_OTHERS,):
            return figure.size_bytes
    return None


def _weights(line: Line, measured: MeasuredRank, record: Record) -> Line:
    """Return the weights as computed, unless the measured size differs."""
    reported = measured.figure("weights_bytes")
    if reported is None or abs(reported - line.size_bytes) <= _SEGMENT_BYTES:
        return line
    return replace(
        line,
        size_bytes=reported,
        low_bytes=reported,
        high_bytes=reported,
        basis=Basis.MEASURED,
        record=record.id,
        why=f"{_from(record)}; computed were {format_size(line.size_bytes)}: "
        f"{line.why}",
    )


def _without_weights(
    figure: CoveredLines, measured: MeasuredRank, weights: Line
) -> int:
    """Return a figure less the plan's weights, where its sum includes them."""
    if _WEIGHTS in figure.covers:
        return figure.size_bytes - weights.size_bytes
    reported = measured.figure("weights_bytes")
    if len(figure.covers) == 1 or reported is None:
        return figure.size_bytes
    # The measured weights were subtracted, but the plan shows its own.
    return figure.size_bytes + reported - weights.size_bytes


def _shared_out(
    lines: Sequence[Line], size_bytes: int, record: Record
) -> dict[str, Line]:
    """Divide a sum: each line keeps its estimate, one takes the remainder."""
    last = next(
        (line for name in _TAKES_THE_REST for line in lines if line.name == name),
        lines[-1],
    )
    left, found = max(0, size_bytes), {}
    for line in lines:
        if line is not last:
            kept = min(line.size_bytes, left)
            left -= kept
            found[line.name] = _kept(line, kept, record)
    together = " + ".join(line.name for line in lines)
    note = f"; {together} are {format_size(size_bytes)}" if len(lines) > 1 else ""
    return found | {last.name: _line(last, left, record, note)}


def _kept(line: Line, size_bytes: int, record: Record) -> Line:
    """Return a line of which only the sum with others was measured."""
    cut = "" if size_bytes == line.size_bytes else "; limited to what was measured"
    return replace(
        line,
        size_bytes=size_bytes,
        low_bytes=size_bytes,
        high_bytes=size_bytes,
        record=record.id,
        why=f"{line.why}{cut}; the sum with non-torch was measured",
    )


def _line(line: Line, size_bytes: int, record: Record, note: str = "") -> Line:
    size_bytes = max(0, size_bytes)
    spread = max(
        _REPEATED_BYTES.get(line.name, _SEGMENT_BYTES),
        size_bytes * _REPEATED_PERCENT // 100,
    )
    return replace(
        line,
        size_bytes=size_bytes,
        low_bytes=max(0, size_bytes - spread),
        high_bytes=size_bytes + spread,
        basis=Basis.MEASURED,
        record=record.id,
        why=f"{_from(record)}{note}; another start may differ by {format_size(spread)}",
    )


def _compiling(line: Line, record: Record, compile_bytes: int) -> Line:
    """Widen the peak's range by what compiling takes, warm or cold."""
    if not line.record or not compile_bytes:
        return line
    was_cold = record.is_compile_cache_cold
    below = 0 if was_cold is False else compile_bytes
    above = 0 if was_cold else compile_bytes
    return replace(
        line,
        low_bytes=max(0, line.low_bytes - below),
        high_bytes=line.high_bytes + above,
        why=f"{line.why}; whether vLLM compiles again makes a difference of "
        f"{format_size(compile_bytes)}",
    )


def _from(record: Record) -> str:
    return f"measured on {record.day} on {record.device} (record {record.id})"


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
