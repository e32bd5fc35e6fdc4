"""From what workers and servers answer to the values of a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.confirming.measurement import EngineFigures, LoadFigures, WorkerFigures
from planner.result import KVCacheGroup

FIGURES = "planner_figures"
"""The method that the memory probe adds to vLLM's workers."""


def worker_from(told: Mapping[str, Any]) -> WorkerFigures:
    """Return one worker's figures from what the probe told of it."""
    peak, graphs = told.get("peak_activation"), told.get("cudagraph_estimate")
    is_charged = bool(told.get("estimates_cudagraphs", False) and graphs)
    has_sum = told.get("total_consumed") is not None
    if has_sum and peak is not None and is_charged:
        # From 0.27 on the peak of the worker holds the graphs' estimate too.
        peak -= graphs
    return WorkerFigures(
        rank=int(told.get("rank", 0)),
        total_memory_bytes=told.get("total_memory"),
        free_at_start_bytes=told.get("free_at_start"),
        requested_memory_bytes=told.get("requested_memory"),
        weights_bytes=_whole(told.get("weights")),
        parameter_bytes=told.get("parameters"),
        consumed_bytes=told.get("total_consumed") or _consumed_on_cpu(told),
        peak_activation_bytes=peak,
        non_torch_bytes=told.get("non_torch"),
        cudagraph_estimate_bytes=graphs,
        is_estimate_charged=is_charged,
        available_kv_cache_bytes=told.get("available_kv_cache"),
        kv_cache_bytes=told.get("kv_cache"),
        num_blocks=told.get("num_blocks"),
        groups=tuple(KVCacheGroup(**group) for group in told.get("groups", ())),
    )


def _consumed_on_cpu(told: Mapping[str, Any]) -> int | None:
    """Return the worker process's memory, which the CPU backend takes off the budget.

    Source: vLLM 0.32.0 `v1/worker/cpu_worker.py` determine_available_memory.
    """
    requested, available = told.get("requested_memory"), told.get("available_kv_cache")
    is_fixed = told.get("config.kv_cache_memory_bytes") is not None
    if not told.get("is_cpu") or requested is None or available is None or is_fixed:
        return None
    return int(requested) - int(available)


def _whole(size: float | None) -> int | None:
    return None if size is None else int(size)


def engine_from(
    workers: Sequence[Mapping[str, Any]], told: Mapping[str, Any]
) -> EngineFigures:
    """Return the engine's figures: its own words first, its workers' copies next.

    `told` has plain values, or the texts of a metric's labels.
    """
    first = workers[0] if workers else {}
    own = {name: value for name, value in told.items() if value not in ("None", "")}

    def whole(name: str) -> int | None:
        value = own.get(name, first.get(f"config.{name}"))
        return None if value is None else int(float(value))

    def number(name: str) -> float | None:
        value = own.get(name, first.get(f"config.{name}"))
        return None if value is None else float(value)

    blocks = [worker["num_blocks"] for worker in workers if "num_blocks" in worker]
    return EngineFigures(
        num_gpu_blocks=whole("num_gpu_blocks") or min(blocks, default=None),
        block_size=whole("block_size"),
        kv_cache_size_tokens=whole("kv_cache_size_tokens"),
        max_concurrency=number("kv_cache_max_concurrency"),
        max_model_len=whole("max_model_len"),
        max_num_seqs=whole("max_num_seqs"),
        max_num_batched_tokens=whole("max_num_batched_tokens"),
        gpu_memory_utilization=number("gpu_memory_utilization"),
    )


def load_from(
    asked: Mapping[str, int], told: Mapping[str, float], *, preempted_before: float = 0
) -> LoadFigures:
    """Return what came of a load, from what was asked and the peaks that were seen."""
    return LoadFigures(
        num_requests=asked["num_requests"],
        prompt_tokens=asked["prompt_tokens"],
        output_tokens=asked["output_tokens"],
        num_finished=int(told["finished"]),
        peak_running=int(told["running"]),
        peak_waiting=int(told["waiting"]),
        peak_kv_cache_usage=float(told["usage"]),
        num_readings=int(told["readings"]),
        preemptions=int(told["preemptions"] - preempted_before),
        seconds=float(told["seconds"]),
    )
