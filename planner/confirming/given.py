"""What a plan says once it is told the memory that vLLM found for the KV cache."""

from __future__ import annotations

from planner.confirming.confirmation import GivenMemory
from planner.confirming.measurement import Measurement
from planner.result import Plan

_LOGGED_DIGITS = 2


def with_memory(plan: Plan, available_bytes: int) -> Plan:
    """Return the same plan with a KV cache of so many bytes.

    Raises:
        PlannerError: where the model is not to be read any more.
    """
    return plan.changed(kv_cache_memory_bytes=available_bytes)


def given_memory(plan: Plan, measurement: Measurement) -> GivenMemory | None:
    """Return what the plan makes of the measured memory; None where none is known.

    A log alone tells the memory to 0.01 GiB, which is not enough to count blocks.
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
