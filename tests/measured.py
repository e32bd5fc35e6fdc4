"""Starts as vLLM would have measured them, for tests of what is stored and used."""

from dataclasses import replace
from typing import Any

import planner
from planner.confirming.measurement import Measurement, WorkerFigures
from planner.planning.result import Plan
from planner.units import GIB, MIB

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
REST, PEAK, GRAPHS = 3 * GIB, GIB, 500 * MIB
"""What stays beside the weights, what is given back, what graphs are said to take."""


def plan(**arguments: Any) -> Plan:
    """Return a plan of a dense model on one H100."""
    given: dict[str, Any] = {"model": LLAMA_8B, "gpu": "H100", **arguments}
    return planner.plan(**given)


def worker(of: Plan, rank: int = 0, pp_rank: int = 0, **figures: Any) -> WorkerFigures:
    """Return a worker of 0.27 or later, whose account closes."""
    memory = of.ranks[pp_rank]
    weights = memory.allocated_weights_bytes
    left = memory.requested_memory_bytes - weights - REST - PEAK - GRAPHS
    told: dict[str, Any] = {
        "total_memory_bytes": of.gpu.total_memory_bytes,
        "requested_memory_bytes": memory.requested_memory_bytes,
        "weights_bytes": weights,
        "consumed_bytes": weights + REST,
        "peak_activation_bytes": PEAK,
        "cudagraph_estimate_bytes": GRAPHS,
        "is_estimate_charged": True,
        "available_kv_cache_bytes": left,
        **figures,
    }
    return WorkerFigures(rank=rank, **told)


def older_worker(of: Plan, **figures: Any) -> WorkerFigures:
    """Return a worker of 0.26 or earlier, which tells non-torch memory by itself."""
    told = {"consumed_bytes": None, "non_torch_bytes": REST, **figures}
    return worker(of, **told)


def start(of: Plan, *workers: WorkerFigures, **facts: Any) -> Measurement:
    """Return what a start with dummy weights told."""
    told: dict[str, Any] = {
        "vllm_version": of.vllm_version,
        "device_name": of.gpu.device_name,
        "date": "2026-11-21T12:00:00+00:00",
        "is_dummy": True,
        "is_compile_cache_cold": True,
        **facts,
    }
    return Measurement(workers=workers or (worker(of),), **told)


def larger(of: Plan, by_bytes: int) -> Plan:
    """Return the plan on a GPU with a little more memory."""
    total = of.gpu.total_memory_bytes + by_bytes
    return replace(of, gpu=replace(of.gpu, total_memory_bytes=total))
