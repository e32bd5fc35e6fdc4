"""A confirmation as plain values: for JSON, tables and files of measured starts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.engine import given_arguments

if TYPE_CHECKING:
    from planner.confirming.confirmation import ComparisonRow, Confirmation
    from planner.confirming.measurement import Measurement
    from planner.result import Plan


def confirmation_dict(confirmation: Confirmation) -> dict[str, Any]:
    """Return everything but vLLM's log; sizes in whole bytes."""
    return {
        "outcome": str(confirmation.outcome),
        "plan": confirmation.plan.to_dict(),
        "measured": measurement_dict(confirmation.measurement),
        "rows": [row_dict(row) for row in confirmation.rows],
        "given_memory": None
        if confirmation.given is None
        else asdict(confirmation.given),
        "reasons": list(confirmation.reasons),
        "notes": list(confirmation.notes),
    }


def row_dict(row: ComparisonRow) -> dict[str, Any]:
    """Return one row of the comparison."""
    return asdict(row) | {"difference": row.difference, "is_inside": row.is_inside}


def measurement_dict(measured: Measurement) -> dict[str, Any]:
    """Return what one start told, its log's figures included."""
    return {
        "vllm_version": measured.vllm_version,
        "device_name": measured.device_name,
        "driver_version": measured.driver_version,
        "date": measured.date,
        "is_started": measured.is_started,
        "error": measured.error,
        "weights_bytes": measured.weights_bytes,
        "available_kv_cache_bytes": measured.available_kv_cache_bytes,
        "cudagraph_bytes": measured.cudagraph_bytes,
        "num_gpu_blocks": measured.num_gpu_blocks,
        "kv_cache_size_tokens": measured.kv_cache_size_tokens,
        "max_concurrency": measured.max_concurrency,
        "workers": [asdict(worker) for worker in measured.workers],
        "engine": asdict(measured.engine),
        "lines": [asdict(line) for line in measured.lines],
        "log": measured.log.to_dict(),
        "generated_tokens": list(measured.generated_tokens),
        "generated_text": measured.generated_text,
        "load": None if measured.load is None else asdict(measured.load),
        "is_dummy": measured.is_dummy,
        "is_compile_cache_cold": measured.is_compile_cache_cold,
        "seconds": round(measured.seconds, 1),
    }


def question_dict(plan: Plan) -> dict[str, Any]:
    """Return what a plan was asked, from which it can be made again."""
    return {
        "model": plan.name,
        "gpu": plan.gpu.name,
        "total_memory_bytes": plan.gpu.total_memory_bytes,
        "vllm_version": plan.vllm_version,
        "entrypoint": plan.entrypoint,
        "env": dict(plan.env),
        "arguments": given_arguments(plan.settings),
    }
