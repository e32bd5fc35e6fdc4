"""Store a confirmed start as a calibration record, if its figures apply to others."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from planner.engine.environment import environment_from
from planner.engine.generations import UNIFIED
from planner.engine.releases import number_of, resolve_version
from planner.errors import PlannerError
from planner.planning.calibrations import is_off
from planner.planning.calibrations.key import Key, Start, key_of
from planner.planning.calibrations.record import CoveredLines, MeasuredRank, Record
from planner.planning.calibrations.store import NotStored, Stored, write
from planner.units import MIB, format_size

if TYPE_CHECKING:
    from planner.confirming.measurement import Measurement, WorkerFigures
    from planner.planning.result import Plan

_TOLERATED_CHANGE_BYTES = 64 * MIB
_NOT_LINES = ("KV cache", "CUDA graphs")


def store(
    plan: Plan, measurement: Measurement, *, moved_bytes: int | None = None
) -> Stored:
    """Store what a start measured, for later plans of the same start.

    Args:
        plan: the plan that vLLM was started for.
        measurement: what its workers reported.
        moved_bytes: by how much the memory of other processes on the GPU changed
            meanwhile; None if unknown.

    Raises:
        NotStored: with the reason in one sentence: figures are missing or do not apply
            to other starts, or the record cannot be written.
    """
    if is_off():
        raise NotStored("Nothing is stored: PLANNER_CALIBRATION is off.")
    record = record_of(plan, measurement)
    if moved_bytes is not None and abs(moved_bytes) > _TOLERATED_CHANGE_BYTES:
        raise NotStored(
            f"Other processes changed their memory on this GPU by "
            f"{format_size(abs(moved_bytes))} while vLLM measured, so its figures are "
            "not stored."
        )
    return write(record)


def record_of(plan: Plan, measurement: Measurement) -> Record:
    """Return the record of a start.

    Raises:
        NotStored: if figures are missing, or are not those of the plan's start.
    """
    key = key_of_plan(plan)
    _check_gpu(plan, measurement)
    _check_release(plan, measurement)
    _check_engine(plan, measurement)
    ranks = _ranks(plan, measurement)
    total = max(
        worker.total_memory_bytes or plan.gpu.total_memory_bytes
        for worker in measurement.workers
    )
    return Record(
        key=key,
        gpu_name=plan.gpu.name,
        device_name=measurement.device_name or plan.gpu.device_name,
        total_memory_bytes=total,
        date=measurement.date or datetime.now(UTC).isoformat(timespec="seconds"),
        model_name="".join(c for c in plan.name if c.isprintable()),
        entrypoint=plan.entrypoint,
        driver_version=measurement.driver_version,
        is_dummy=measurement.is_dummy,
        is_compile_cache_cold=measurement.is_compile_cache_cold,
        captured_graph_bytes=_captured(plan, measurement),
        ranks=ranks,
    )


def key_of_plan(plan: Plan) -> Key:
    """Return what identifies a planned start.

    Raises:
        NotStored: for a plan that vLLM refuses.
    """
    if plan.resolved is None or plan.model is None:
        raise NotStored("vLLM refuses this plan, so there is nothing to store.")
    release, _ = resolve_version(plan.vllm_version)
    return key_of(
        Start(
            model=plan.model,
            settings=plan.settings,
            resolved=plan.resolved,
            env=environment_from(dict(plan.env), release),
            given_env=plan.env,
            release=release,
        )
    )


def _check_gpu(plan: Plan, measurement: Measurement) -> None:
    ran, planned = measurement.device_name, plan.gpu.device_name
    if ran and planned and ran != planned:
        raise NotStored(
            f"vLLM ran on a {ran}, and the plan is for a {planned}, so the figures are "
            "not stored. Plan with gpu='attached' to store them."
        )
    if plan.gpu.is_integrated or plan.gpu.compute_capability in UNIFIED:
        raise NotStored(
            f"GPU and processor of {plan.gpu.name} share their memory: what other "
            "programs and the page cache hold changes the figures of every start, so "
            "they are not stored."
        )


def _check_release(plan: Plan, measurement: Measurement) -> None:
    version = measurement.vllm_version
    if version is None:
        return
    try:
        ran = ".".join(map(str, number_of(version)))
    except PlannerError:  # a build without a release's number
        ran = version
    if ran != plan.vllm_version:
        raise NotStored(
            f"vLLM {ran} ran, and the plan is for {plan.vllm_version}, so the figures "
            f"are not stored. Plan with vllm_version={ran!r} to store them."
        )


def _check_engine(plan: Plan, measurement: Measurement) -> None:
    """Refuse a start that resolved its arguments differently from the plan."""
    for name in ("max_num_seqs", "max_num_batched_tokens"):
        ran = getattr(measurement.engine, name)
        planned = getattr(plan.resolved, name)
        if ran is not None and ran != planned:
            raise NotStored(
                f"vLLM ran with {name}={ran}, and the plan has {planned}, so the "
                f"figures are not stored. Plan with {name}={ran} to store them."
            )


def _ranks(plan: Plan, measurement: Measurement) -> tuple[MeasuredRank, ...]:
    """Return the rank of each stage that has the least memory for the KV cache."""
    per_stage = plan.settings.tensor_parallel_size or 1
    stages: dict[int, WorkerFigures] = {}
    for worker in measurement.workers:
        stage = worker.rank // per_stage % len(plan.ranks)
        if worker.available_kv_cache_bytes is None:
            continue
        known = stages.get(stage)
        if known is None or _left(worker) < _left(known):
            stages[stage] = worker
    ranks = [
        _measured_rank(stage, worker, measurement)
        for stage, worker in sorted(stages.items())
    ]
    if not ranks:
        raise NotStored(
            "vLLM did not get as far as measuring its memory, so there is nothing to "
            "store."
        )
    return tuple(ranks)


def _captured(plan: Plan, measurement: Measurement) -> int | None:
    """Return the captured graphs' size; a log does not say which stage it is for.

    A negative figure means that other memory was freed meanwhile.
    """
    size = measurement.cudagraph_bytes
    return size if size is not None and size >= 0 and len(plan.ranks) == 1 else None


def _left(worker: WorkerFigures) -> int:
    return worker.available_kv_cache_bytes or 0


def _measured_rank(
    stage: int, worker: WorkerFigures, measurement: Measurement
) -> MeasuredRank:
    alone = replace(measurement, workers=(worker,))
    lines = tuple(
        CoveredLines(covers=line.covers, size_bytes=line.size_bytes)
        for line in alone.lines
        if line.name not in _NOT_LINES
    )
    used = [line for line in lines if line.covers != ("weights",)]
    if not used:
        raise NotStored(
            "The memory that vLLM measures was not measured in this start "
            "(kv_cache_memory_bytes fixes the KV cache), so there is nothing to store."
        )
    for line in used:
        if line.size_bytes < -_TOLERATED_CHANGE_BYTES:
            raise NotStored(
                f"vLLM measured {format_size(line.size_bytes)} for "
                f"{' + '.join(line.covers)}: another process gave memory back "
                "meanwhile, so its figures are not stored."
            )
    return MeasuredRank(
        pp_rank=stage,
        lines=lines,
        cudagraph_estimate_bytes=worker.cudagraph_estimate_bytes,
        figures=_figures(worker),
    )


def _figures(worker: WorkerFigures) -> tuple[tuple[str, int], ...]:
    values = ((field.name, getattr(worker, field.name)) for field in fields(worker))
    return tuple(
        (name, value)
        for name, value in values
        if isinstance(value, int) and not isinstance(value, bool) and name != "rank"
    )
