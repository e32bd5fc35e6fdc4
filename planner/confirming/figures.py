"""The values of a measurement, from what workers and servers report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.confirming.measurement import EngineFigures, LoadFigures, WorkerFigures
from planner.planning.result import KVCacheGroup

FIGURES = "planner_figures"
"""Method that the memory probe adds to vLLM's workers."""


def worker_from(report: Mapping[str, Any]) -> WorkerFigures:
    """Return one worker's figures from the probe's report."""
    peak, graphs = report.get("peak_activation"), report.get("cudagraph_estimate")
    is_charged = bool(report.get("estimates_cudagraphs", False) and graphs)
    has_sum = report.get("total_consumed") is not None
    if has_sum and peak is not None and is_charged:
        # From 0.27 on the worker's peak includes the graphs' estimate.
        peak -= graphs
    return WorkerFigures(
        rank=int(report.get("rank", 0)),
        total_memory_bytes=report.get("total_memory"),
        free_at_start_bytes=report.get("free_at_start"),
        requested_memory_bytes=report.get("requested_memory"),
        weights_bytes=_whole(report.get("weights")),
        parameter_bytes=report.get("parameters"),
        consumed_bytes=report.get("total_consumed") or _consumed_on_cpu(report),
        peak_activation_bytes=peak,
        non_torch_bytes=report.get("non_torch"),
        cudagraph_estimate_bytes=graphs,
        is_estimate_charged=is_charged,
        available_kv_cache_bytes=report.get("available_kv_cache"),
        kv_cache_bytes=report.get("kv_cache"),
        num_blocks=report.get("num_blocks"),
        groups=tuple(KVCacheGroup(**group) for group in report.get("groups", ())),
    )


def _consumed_on_cpu(report: Mapping[str, Any]) -> int | None:
    """Return the process's memory, which the CPU backend subtracts from the budget.

    Source: vLLM 0.32.0 `v1/worker/cpu_worker.py` determine_available_memory.
    """
    requested, available = (
        report.get("requested_memory"),
        report.get("available_kv_cache"),
    )
    is_fixed = report.get("config.kv_cache_memory_bytes") is not None
    if not report.get("is_cpu") or requested is None or available is None or is_fixed:
        return None
    return int(requested) - int(available)


def _whole(size: float | None) -> int | None:
    return None if size is None else int(size)


def engine_from(
    workers: Sequence[Mapping[str, Any]], engine: Mapping[str, Any]
) -> EngineFigures:
    """Return the engine's figures: its own values first, then its workers' copies.

    `engine` has plain values, or a metric's labels as strings.
    """
    first = workers[0] if workers else {}
    own = {name: value for name, value in engine.items() if value not in ("None", "")}

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


def load_figures(
    load: Mapping[str, int], seen: Mapping[str, float], *, preempted_before: float = 0
) -> LoadFigures:
    """Return the figures of a load, from its requests and the peaks that were seen."""
    return LoadFigures(
        num_requests=load["num_requests"],
        prompt_tokens=load["prompt_tokens"],
        output_tokens=load["output_tokens"],
        num_finished=int(seen["finished"]),
        peak_running=int(seen["running"]),
        peak_waiting=int(seen["waiting"]),
        peak_kv_cache_usage=float(seen["usage"]),
        num_readings=int(seen["readings"]),
        preemptions=int(seen["preemptions"] - preempted_before),
        seconds=float(seen["seconds"]),
    )
