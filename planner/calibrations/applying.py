"""Puts what a start measured in the place of a plan's estimates.

vLLM closes its budget by sums, so a figure may stand for several lines: what stays
after the profile run is one figure from 0.27 on. Those of its lines that follow from
vLLM's code keep their size, and the rest of the sum goes to the one that does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.calibrations.record import CoveredLines, MeasuredRank, Record
from planner.memory.outside import NOT_CHARGED
from planner.result import Basis, Line, RankMemory
from planner.units import MIB, format_size

_WEIGHTS, _GRAPHS = "weights", "CUDA graphs"
_PEAK, _OTHERS = "peak activation", "non-torch"
_SEGMENT_BYTES = 2 * MIB
"""PyTorch takes memory in segments of so much."""
_REPEATED_BYTES = {
    _PEAK: 32 * MIB,
    _OTHERS: 64 * MIB,
    _GRAPHS: 32 * MIB,
    NOT_CHARGED: 32 * MIB,
}
"""By how much another start of the same may differ: kernels are chosen by trial, their
modules are loaded when first needed, graphs' memory comes in segments. Published starts
that were repeated on one machine agree to vLLM's last digit, 10 MiB."""
_REPEATED_PERCENT = 2
# What is given the rest of a sum: the line that vLLM's code tells least of.
_TAKES_THE_REST = (_OTHERS, _PEAK)


def applied(
    lines: Sequence[Line],
    record: Record,
    pp_rank: int,
    *,
    is_cudagraph_charged: bool,
    compile_bytes: int = 0,
) -> tuple[Line, ...]:
    """Return the lines of a rank with the record's figures in their places.

    `compile_bytes` is what a start that compiles anew takes more for a moment.
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
    """Return a rank with the graphs as they were captured, charged or beside it."""
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
    """Return the lines with another start's memory that PyTorch does not know of.

    Only where it was measured by itself, as up to 0.26: there it hardly depends on the
    model. Of 25 published starts of vLLM 0.19.0 on one H100 each, 23 told 0.24 to 0.26
    GiB, whatever model, dtype or quantisation, and two of the Granite family 0.46.
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
    """Return non-torch memory where a start measured it by itself; None elsewhere."""
    measured = record.rank(pp_rank)
    for figure in () if measured is None else measured.lines:
        if figure.covers == (_OTHERS,):
            return figure.size_bytes
    return None


def _weights(line: Line, measured: MeasuredRank, record: Record) -> Line:
    """Return the weights as computed, unless the start says otherwise."""
    told = measured.figure("weights_bytes")
    if told is None or abs(told - line.size_bytes) <= _SEGMENT_BYTES:
        return line
    return replace(
        line,
        size_bytes=told,
        low_bytes=told,
        high_bytes=told,
        basis=Basis.MEASURED,
        record=record.id,
        why=f"{_from(record)}; computed were {format_size(line.size_bytes)}: "
        f"{line.why}",
    )


def _without_weights(
    figure: CoveredLines, measured: MeasuredRank, weights: Line
) -> int:
    """Return a figure less the plan's weights, where it is a sum that held any."""
    if _WEIGHTS in figure.covers:
        return figure.size_bytes - weights.size_bytes
    told = measured.figure("weights_bytes")
    if len(figure.covers) == 1 or told is None:
        return figure.size_bytes
    # It had the measured weights taken off, and the plan shows its own.
    return figure.size_bytes + told - weights.size_bytes


def _shared_out(
    lines: Sequence[Line], size_bytes: int, record: Record
) -> dict[str, Line]:
    """Share a sum out: each line keeps its estimate, one takes what is left."""
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
    """Return a line whose sum with others was measured: its own share is computed."""
    cut = "" if size_bytes == line.size_bytes else "; cut to what was measured"
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
    """Widen the peak by what compiling takes, where it did not happen, or did."""
    if not line.record or not compile_bytes:
        return line
    was_cold = record.is_compile_cache_cold
    below = 0 if was_cold is False else compile_bytes
    above = 0 if was_cold else compile_bytes
    return replace(
        line,
        low_bytes=max(0, line.low_bytes - below),
        high_bytes=line.high_bytes + above,
        why=f"{line.why}; compiling anew or not makes {format_size(compile_bytes)}",
    )


def _from(record: Record) -> str:
    return f"measured on {record.day} on {record.device} (record {record.id})"
