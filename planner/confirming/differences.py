"""An estimate and a measurement side by side, line by line, with likely reasons.

`confirmation_of` compares the figures in rows, plans again with the memory that vLLM
measured for the KV cache (`given_memory`), and explains differences (`reasons`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.confirming.confirmation import (
    ComparisonRow,
    Confirmation,
    Confirmed,
    GivenMemory,
)
from planner.confirming.measurement import MeasuredLine, Measurement
from planner.memory.account import Basis, Line
from planner.memory.estimate import RankMemory
from planner.planning.result import Outcome, Plan
from planner.units import MIB, format_gib, format_size

_SAME_TOTAL_BYTES = 64 * MIB
_LOGGED_DIGITS = 2
_ERROR_CHARACTERS = 40
"""Characters that identify an error: figures in its message come later."""
_CERTAINTY = list(Basis)
_SETTINGS = (
    ("max_model_len", "tokens"),
    ("max_num_batched_tokens", "tokens"),
    ("max_num_seqs", "requests"),
    ("block_size", "tokens"),
)
_COLD = (
    "vLLM compiled the model in this start: what the compiler leaves behind "
    "counts as used. Start again with the warm cache to see the difference."
)
_REASONS_BY_LINE = {
    "weights": (
        "vLLM stored the weights in another way than planned: a kernel that repacks "
        "them, tied or padded tensors, or a quantization chosen while loading."
    ),
    "persistent buffers": (
        "it holds what depends on the machine: kernels that are loaded, buffers of "
        "NCCL, packages such as FlashInfer that are installed or not, and memory that "
        "other programs took meanwhile."
    ),
    "non-torch": (
        "it holds what PyTorch does not track: kernels, buffers of NCCL, and memory "
        "that other programs took meanwhile."
    ),
    "peak activation": (
        "the peak depends on the kernels that vLLM chose: the sampler (FlashInfer or "
        "not), the experts' kernel, and on what the compiler fused."
    ),
    "CUDA graphs": (
        "the trial capture measures a part of the graphs only and scales it, and the "
        "driver rounds what they take."
    ),
}
"""By the first line that a measured figure covers."""
_DRY_REASONS = {
    "persistent buffers": (
        "vLLM or a kernel's package keeps tensors that the planner does not count, or "
        "fewer; nothing else uses a GPU that is not there."
    ),
}
"""The same where vLLM started without a GPU."""


def confirmation_of(
    plan: Plan,
    measurement: Measurement,
    *,
    log_text: str = "",
    notes: tuple[str, ...] = (),
    is_stopped: bool = False,
) -> Confirmation:
    """Compare a measurement with its plan and explain the difference.

    A plan of both a first start and later ones is compared as the one that it was; one
    of either sampler as that whose KV cache was measured.
    """
    plan = _as_sampled(_as_started(plan, measurement), measurement)
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


def _as_started(plan: Plan, measurement: Measurement) -> Plan:
    """Return the plan of a first start, or of a later one, as it was measured."""
    was_cold = measurement.is_compile_cache_cold
    is_open = plan.settings.compile_cache is None
    differs = any(one.argument == "compile_cache" for one in plan.alternatives)
    if was_cold is None or not (is_open and differs):
        return plan
    return plan.changed(compile_cache="cold" if was_cold else "warm")


def _as_sampled(plan: Plan, measurement: Measurement) -> Plan:
    """Return the plan with the sampler that explains the measured KV cache alone."""
    measured = measurement.available_kv_cache_bytes
    fitting = [
        one
        for one in plan.alternatives
        if one.argument == "sampler"
        and measured is not None
        and one.available_kv_cache_low_bytes
        <= measured
        <= one.available_kv_cache_high_bytes
    ]
    if plan.settings.sampler is not None or len(fitting) != 1 or fitting[0].is_planned:
        return plan
    return plan.changed(sampler=fitting[0].value)


def outcome_of(
    plan: Plan, measurement: Measurement, rows: Sequence[ComparisonRow]
) -> Confirmed:
    """Return whether the start ended as planned."""
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


def reasons(
    plan: Plan, measurement: Measurement, rows: Sequence[ComparisonRow]
) -> tuple[str, ...]:
    """Return sentences, the likeliest reason first; none if all is as planned."""
    return tuple(
        dict.fromkeys(
            (
                *_outcome_reasons(plan, measurement),
                *_release_reasons(plan, measurement),
                *_setting_reasons(rows),
                *_device_reasons(plan, measurement),
                *_line_reasons(rows, is_dry=measurement.is_dry),
                *_sparse_log_reasons(rows),
                *_cache_reasons(measurement, rows),
            )
        )
    )


def _outcome_reasons(plan: Plan, measurement: Measurement) -> Iterator[str]:
    if measurement.is_started is None or plan.outcome is Outcome.TOO_CLOSE:
        return
    if measurement.is_started and plan.error is not None:
        yield f"The plan expected vLLM to refuse: {plan.error.message}"
    elif not measurement.is_started and plan.error is None:
        yield f"vLLM did not start: {measurement.error or 'its log names no error'}"


def _release_reasons(plan: Plan, measurement: Measurement) -> Iterator[str]:
    if measurement.vllm_version not in (None, plan.vllm_version):
        yield (
            f"Another release: measured with vLLM {measurement.vllm_version}, planned "
            f"for {plan.vllm_version}. Plan with "
            f'vllm_version="{measurement.vllm_version}".'
        )


def _setting_reasons(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    for row in rows:
        if row.basis == "exact" and row.unit != "bytes" and row.is_inside is False:
            yield (
                f"Another setting: vLLM resolved {row.name} to {row.measured:,}, the "
                f"plan to {row.estimated:,}; memory follows it."
            )


def _device_reasons(plan: Plan, measurement: Measurement) -> Iterator[str]:
    for worker in measurement.workers:
        total, free = worker.total_memory_bytes, worker.free_at_start_bytes
        if total is None:
            continue
        difference = total - plan.gpu.total_memory_bytes
        if abs(difference) > _SAME_TOTAL_BYTES:
            yield (
                f"Another total: this GPU has {format_gib(total)}, the planned one "
                f"{format_gib(plan.gpu.total_memory_bytes)}. Plan with "
                'gpu="attached".'
            )
        rank = plan.limiting_rank
        held = sum(line.high_bytes for line in rank.outside) if rank else 0
        if measurement.is_dry or free is None:  # others hold nothing of a false GPU
            continue
        if total - free > held + _SAME_TOTAL_BYTES:
            yield (
                f"Other programs held {format_gib(total - free - held)} or more of "
                f"the GPU when vLLM started; what they took or gave back while it "
                "measured counts as its own."
            )


def _line_reasons(rows: Sequence[ComparisonRow], *, is_dry: bool) -> Iterator[str]:
    """Explain the lines that are outside their range, the largest difference first."""
    outside = [
        row
        for row in rows
        if row.unit == "bytes" and row.is_inside is False and row.name != "KV cache"
    ]
    known = _REASONS_BY_LINE | (_DRY_REASONS if is_dry else {})
    for row in sorted(outside, key=lambda row: -abs(row.difference or 0)):
        difference = int(row.difference or 0)
        more = "more" if difference > 0 else "less"
        why = known.get(row.name.split(" + ")[0], "")
        size = format_size(abs(difference))
        yield f"{row.name}: {size} {more} than estimated{': ' * bool(why)}{why}"


def _sparse_log_reasons(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    """Say that a log has too little to name the line that differs."""
    measured = [row for row in rows if row.unit == "bytes" and row.measured is not None]
    names = [row.name for row in measured]
    if names == ["KV cache"] and measured[0].is_inside is False:
        yield (
            "The log reports only the KV cache, not the lines before it, nor "
            "perhaps the arguments: give those that were typed. With "
            "VLLM_LOGGING_LEVEL=DEBUG vLLM logs its whole account."
        )


def _cache_reasons(
    measurement: Measurement, rows: Sequence[ComparisonRow]
) -> Iterator[str]:
    is_off = any(row.unit == "bytes" and row.is_inside is False for row in rows)
    if measurement.is_compile_cache_cold and is_off:
        yield _COLD


def with_memory(plan: Plan, available_bytes: int) -> Plan:
    """Return the same plan with a KV cache of that many bytes.

    Raises:
        PlannerError: if the model can no longer be read.
    """
    return plan.changed(kv_cache_memory_bytes=available_bytes)


def given_memory(plan: Plan, measurement: Measurement) -> GivenMemory | None:
    """Return the plan's figures for the measured memory; None if it is unknown.

    A log alone has the memory to 0.01 GiB only, which is too coarse to count blocks.
    """
    worker = measurement.limiting_worker
    available = None if worker is None else worker.available_kv_cache_bytes
    if not available:
        return None
    again = with_memory(plan, available)
    error = None if again.error is None else again.error.message
    return GivenMemory(
        available_kv_cache_bytes=available,
        num_gpu_blocks=again.num_gpu_blocks,
        kv_cache_size_tokens=again.kv_cache_size_tokens,
        max_concurrency=again.max_concurrency,
        error=error,
        is_exact=_is_exact(again, measurement),
    )


def _is_exact(again: Plan, measurement: Measurement) -> bool:
    if again.error is not None:
        return again.error.message in (measurement.error or "")
    blocks, tokens = measurement.num_gpu_blocks, measurement.kv_cache_size_tokens
    has_blocks = blocks in (None, again.num_gpu_blocks)
    has_tokens = tokens in (None, again.kv_cache_size_tokens)
    return (
        measurement.is_started is True
        and has_blocks
        and has_tokens
        and _is_same_concurrency(again.max_concurrency, measurement)
    )


def _is_same_concurrency(expected: float, measurement: Measurement) -> bool:
    if measurement.engine.max_concurrency is not None:
        return expected == measurement.engine.max_concurrency
    logged = measurement.max_concurrency
    return logged is None or round(expected, _LOGGED_DIGITS) == logged


def rows_of(plan: Plan, measurement: Measurement) -> Iterator[ComparisonRow]:
    """Yield the rows of the account's lines, then those of counts and settings."""
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
    """Return the estimate of the stage whose worker limits the measurement."""
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
        basis=_least_certain_basis(lines),
        is_rounded=is_rounded or is_weights,
    )


def _estimate(rank: RankMemory, line: Line) -> int:
    """Return a line's size; for weights as the allocator rounds them, as vLLM does."""
    return rank.allocated_weights_bytes if line.name == "weights" else line.size_bytes


def _least_certain_basis(lines: Sequence[Line]) -> str:
    bases = [line.basis for line in lines if line.size_bytes] or [Basis.EXACT]
    return str(max(bases, key=_CERTAINTY.index))


def _count_rows(
    plan: Plan, rank: RankMemory, measurement: Measurement
) -> Iterator[ComparisonRow]:
    """Yield blocks, tokens and concurrency, with both ends of the KV cache's range."""
    low = _planned_with(plan, rank.available_kv_cache_low_bytes)
    high = _planned_with(plan, rank.available_kv_cache_high_bytes)
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


def _planned_with(plan: Plan, available_bytes: int) -> Plan | None:
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
