"""An estimate and a measurement side by side, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.confirming.confirmation import ComparisonRow, Confirmation, Confirmed
from planner.confirming.given import given_memory, with_memory
from planner.confirming.measurement import MeasuredLine, Measurement
from planner.confirming.reasons import reasons
from planner.result import Basis, Line, Outcome, Plan, RankMemory

_CERTAINTY = [Basis.EXACT, Basis.FORMULA, Basis.MEASURED, Basis.ASSUMED]
_SETTINGS = (
    ("max_model_len", "tokens"),
    ("max_num_batched_tokens", "tokens"),
    ("max_num_seqs", "requests"),
    ("block_size", "tokens"),
)
_ERROR_CHARACTERS = 40
"""Of an error's beginning, which tells its kind: figures in it come later."""


def confirmation_of(
    plan: Plan,
    measurement: Measurement,
    *,
    log_text: str = "",
    notes: tuple[str, ...] = (),
    is_stopped: bool = False,
) -> Confirmation:
    """Lay a measurement over its plan and say what the difference means."""
    rows = tuple(rows_of(plan, measurement))
    outcome = Confirmed.OPEN if is_stopped else outcome_of(plan, measurement, rows)
    return Confirmation(
        plan=plan,
        measurement=measurement,
        outcome=outcome,
        rows=rows,
        given=given_memory(plan, measurement),
        reasons=reasons(plan, measurement, rows),
        notes=notes,
        log_text=log_text,
    )


def outcome_of(
    plan: Plan, measurement: Measurement, rows: Sequence[ComparisonRow]
) -> Confirmed:
    """Say whether the start ended as planned."""
    started = measurement.is_started
    if started is None or plan.outcome is Outcome.TOO_CLOSE:
        return Confirmed.OPEN
    if started != plan.fits:
        return Confirmed.CONTRADICTED
    if not started:
        return Confirmed.CONFIRMED if _same_error(plan, measurement) else Confirmed.OFF
    is_off = any(row.is_inside is False for row in rows)
    return Confirmed.OFF if is_off else Confirmed.CONFIRMED


def _same_error(plan: Plan, measurement: Measurement) -> bool:
    planned = "" if plan.error is None else plan.error.message
    return planned[:_ERROR_CHARACTERS] in (measurement.error or "")


def rows_of(plan: Plan, measurement: Measurement) -> Iterator[ComparisonRow]:
    """Yield the account's lines first, then what follows from them."""
    rank = _rank_of(plan, measurement)
    if rank is None:
        return
    is_rounded = not measurement.workers
    for measured in measurement.lines:
        yield _line_row(rank, measured, is_rounded=is_rounded)
    if measurement.cudagraph_bytes is not None:
        yield ComparisonRow(
            name="CUDA graphs, as captured",
            unit="bytes",
            estimated=rank.captured_graph_bytes,
            measured=measurement.cudagraph_bytes,
            basis=str(Basis.MEASURED),
            is_rounded=True,
        )
    yield from _count_rows(plan, rank, measurement)
    yield from _setting_rows(plan, measurement)


def _rank_of(plan: Plan, measurement: Measurement) -> RankMemory | None:
    """Return the account of the stage whose worker was measured."""
    worker = measurement.limiting_worker
    if worker is None or len(plan.ranks) <= 1:
        return plan.limiting_rank
    per_stage = plan.settings.tensor_parallel_size or 1
    return plan.ranks[worker.rank // per_stage % len(plan.ranks)]


def _line_row(
    rank: RankMemory, measured: MeasuredLine, *, is_rounded: bool
) -> ComparisonRow:
    lines = [line for line in rank.lines if line.name in measured.covers]
    is_weights = measured.name == "weights"
    size = sum(_estimate(rank, line) for line in lines)
    shift = size - sum(line.size_bytes for line in lines)
    return ComparisonRow(
        name=measured.name,
        unit="bytes",
        estimated=size,
        low=shift + sum(line.low_bytes for line in lines),
        high=shift + sum(line.high_bytes for line in lines),
        measured=measured.size_bytes,
        basis=_weakest(lines),
        is_rounded=is_rounded or is_weights,
    )


def _estimate(rank: RankMemory, line: Line) -> int:
    """Return a line's size; weights as the allocator rounds them, as vLLM measures."""
    return rank.allocated_weights_bytes if line.name == "weights" else line.size_bytes


def _weakest(lines: Sequence[Line]) -> str:
    known = [line.basis for line in lines if line.size_bytes] or [Basis.EXACT]
    return str(max(known, key=_CERTAINTY.index))


def _count_rows(
    plan: Plan, rank: RankMemory, measurement: Measurement
) -> Iterator[ComparisonRow]:
    """Yield blocks, tokens and concurrency, at both ends of the KV cache's range."""
    low = _at(plan, rank.available_kv_cache_low_bytes)
    high = _at(plan, rank.available_kv_cache_high_bytes)
    figures = (
        ("num_gpu_blocks", "blocks", measurement.num_gpu_blocks),
        ("kv_cache_size_tokens", "tokens", measurement.kv_cache_size_tokens),
        ("max_concurrency", "requests", measurement.max_concurrency),
    )
    for name, unit, measured in figures:
        yield ComparisonRow(
            name=name,
            unit=unit,
            estimated=getattr(plan, name),
            low=getattr(low, name) if low else 0,
            high=getattr(high, name) if high else getattr(plan, name),
            measured=measured,
            basis=str(Basis.FORMULA),
        )


def _at(plan: Plan, available_bytes: int) -> Plan | None:
    return with_memory(plan, available_bytes) if available_bytes > 0 else None


def _setting_rows(plan: Plan, measurement: Measurement) -> Iterator[ComparisonRow]:
    for name, unit in _SETTINGS:
        measured = getattr(measurement.engine, name)
        if measured is not None:
            yield ComparisonRow(
                name=name,
                unit=unit,
                estimated=getattr(plan.resolved, name, None),
                measured=measured,
                basis=str(Basis.EXACT),
            )
