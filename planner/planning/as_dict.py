"""A plan as plain values, in the form of the public contract; sizes in whole bytes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.memory.account import Line
    from planner.memory.estimate import RankMemory
    from planner.memory.host.nodes import NodeAccount
    from planner.planning.result import Plan
    from planner.planning.serving import Serving

SCHEMA_VERSION = "1.1"
"""Of `planner/data/plan.schema.json`: a new key raises the second number, one that goes
or means something else the first."""


def plan_dict(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain values; see `Plan.to_dict`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": plan.name,
        "vllm_version": plan.vllm_version,
        "fits": plan.fits,
        "verdict": str(plan.outcome),
        "error": None if plan.error is None else asdict(plan.error),
        "resolved": _resolved(plan),
        "gpu": _gpu(plan),
        "ranks": [_rank(rank) for rank in plan.ranks],
        **_totals(plan),
        "host": [_node(account) for account in plan.host],
        "loading": _loading(plan),
        "kv_groups": [asdict(group) for group in plan.kv_groups],
        "bytes_per_block": [rank.bytes_per_block for rank in plan.ranks],
        "blocks_per_request": plan.blocks_per_request,
        "num_gpu_blocks": plan.num_gpu_blocks,
        "kv_cache_size_tokens": plan.kv_cache_size_tokens,
        "max_concurrency": plan.max_concurrency,
        "max_concurrency_low": plan.max_concurrency_low,
        "max_model_len_that_fits": plan.max_model_len_that_fits,
        "estimated_max_model_len": plan.estimated_max_model_len,
        "safe_gpu_memory_utilization": plan.safe_gpu_memory_utilization,
        "alternatives": [asdict(one) for one in plan.alternatives],
        "gpus_total": plan.gpus_total,
        "all_engines": asdict(plan.all_engines),
        "load": None if plan.load is None else asdict(plan.load),
        "serves": _serves(plan.serving),
        "conditions": list(plan.conditions),
        "notes": list(plan.notes),
        "command": plan.command(),
    }


def _serves(serving: Serving | None) -> dict[str, Any] | None:
    if serving is None:
        return None
    return {
        "is_served": serving.is_served,
        "requests_served": serving.requests_served,
        "requests_held": serving.requests_held,
        "requests_certain": serving.requests_certain,
        "blocks_per_request": serving.blocks_held,
        "shared_blocks": serving.shared_blocks,
    }


def _resolved(plan: Plan) -> dict[str, Any]:
    if plan.resolved is None:
        return {}
    values = asdict(plan.resolved)
    values["cudagraph_capture_sizes"] = list(plan.resolved.cudagraph_capture_sizes)
    return values


def _gpu(plan: Plan) -> dict[str, Any]:
    return {
        "name": plan.gpu.name,
        "device_name": plan.gpu.device_name,
        "total_memory_bytes": plan.gpu.total_memory_bytes,
        "free_memory_bytes": plan.gpu.free_memory_bytes,
        "compute_capability": list(plan.gpu.compute_capability),
        "memory_bandwidth_bytes_per_second": (
            plan.gpu.memory_bandwidth_bytes_per_second
        ),
        "dense_flops": dict(plan.gpu.dense_flops),
    }


def _rank(rank: RankMemory) -> dict[str, Any]:
    return {
        "pp_rank": rank.pp_rank,
        "weights_bytes": rank.weights_bytes,
        "allocated_weights_bytes": rank.allocated_weights_bytes,
        "requested_memory_bytes": rank.requested_memory_bytes,
        "lines": [_line(line) for line in rank.lines],
        "outside": [_line(line) for line in rank.outside],
        "weight_parts": {part.name: part.size_bytes for part in rank.weight_parts},
        "available_kv_cache_bytes": rank.available_kv_cache_bytes,
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "bytes": line.size_bytes,
        "low_bytes": line.low_bytes,
        "high_bytes": line.high_bytes,
        "basis": str(line.basis),
        "why": line.why,
    }


def _node(account: NodeAccount) -> dict[str, Any]:
    return {
        "nodes": list(account.nodes),
        "gpus": account.gpus,
        "engines": account.engines,
        "capacity_bytes": account.capacity_bytes,
        "needed_bytes": account.needed_bytes,
        "lines": [
            {
                "name": line.name,
                "bytes": line.size_bytes,
                "basis": str(line.basis),
                "per": str(line.per),
                "why": line.why,
            }
            for line in account.lines
        ],
    }


def _loading(plan: Plan) -> dict[str, Any] | None:
    loading = plan.loading
    if loading is None:
        return None
    return {
        "load_format": loading.load_format,
        "checkpoint_bytes": loading.checkpoint_bytes,
        "read_bytes": loading.read_bytes,
        "disk_bytes": loading.disk_bytes,
        "page_cache_bytes": loading.page_cache_bytes,
        "seconds": round(loading.seconds, 1),
        "basis": str(loading.basis),
        "why": f"{loading.reading_why}; {loading.seconds_why}",
    }


def _totals(plan: Plan) -> dict[str, Any]:
    """Return figures of the largest and of the limiting rank; None when refused."""
    rank = plan.limiting_rank
    if rank is None:
        names = (
            "weights_bytes",
            "allocated_weights_bytes",
            "activation_bytes",
            "cudagraph_bytes",
            "non_torch_bytes",
            "available_kv_cache_bytes",
            "available_kv_cache_low_bytes",
            "available_kv_cache_high_bytes",
        )
        return dict.fromkeys(names)
    ranks = plan.ranks
    return {
        "weights_bytes": max(r.weights_bytes for r in ranks),
        "allocated_weights_bytes": max(r.allocated_weights_bytes for r in ranks),
        "activation_bytes": rank.line("peak activation").size_bytes,
        "cudagraph_bytes": rank.captured_graph_bytes,
        "non_torch_bytes": rank.line("non-torch").size_bytes,
        "available_kv_cache_bytes": min(r.available_kv_cache_bytes for r in ranks),
        "available_kv_cache_low_bytes": min(
            r.available_kv_cache_low_bytes for r in ranks
        ),
        "available_kv_cache_high_bytes": min(
            r.available_kv_cache_high_bytes for r in ranks
        ),
    }
