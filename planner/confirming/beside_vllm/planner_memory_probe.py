"""Methods that vLLM mixes into its workers, to read their memory account.

Given to vLLM as `worker_extension_cls="planner_memory_probe.MemoryProbe"` and called by
its collective_rpc. They return only plain values, which every serialisation supports.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

_WORKERS = (
    ("vllm.v1.worker.gpu_worker", "Worker"),
    ("vllm.v1.worker.cpu_worker", "CPUWorker"),
)
_PLAIN = (int, float, str, bool)


class MemoryProbe:
    """A worker's own figures; the prefix planner_ avoids vLLM's names."""

    def planner_figures(self) -> dict[str, Any]:
        """Return this worker's account in bytes, without figures that it does not have.

        Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` Worker, `v1/worker/cpu_worker.py`
        CPUWorker, `v1/worker/gpu_model_runner.py` GPUModelRunner.
        """
        snapshot = getattr(self, "init_snapshot", None)
        runner = getattr(self, "model_runner", None)
        figures = {
            "rank": getattr(self, "rank", 0),
            "process": os.getpid(),
            "total_memory": getattr(snapshot, "total_memory", None),
            "free_at_start": getattr(snapshot, "free_memory", None),
            "requested_memory": getattr(
                self, "requested_memory", getattr(self, "requested_cpu_memory", None)
            ),
            "weights": getattr(runner, "model_memory_usage", None),
            "total_consumed": getattr(self, "total_consumed", None),
            "peak_activation": getattr(self, "peak_activation_memory", None),
            "non_torch": getattr(self, "non_torch_memory", None),
            "cudagraph_estimate": getattr(self, "cudagraph_memory_estimate", None),
            "available_kv_cache": getattr(self, "planner_available_bytes", None),
            "is_cpu": getattr(getattr(self, "device", None), "type", "") == "cpu",
            "estimates_cudagraphs": _estimates_cudagraphs(),
            **_parameters(runner),
            **_kv_cache(runner),
            **_config(getattr(self, "vllm_config", None)),
        }
        return {name: value for name, value in figures.items() if value is not None}


def _estimates_cudagraphs() -> bool | None:
    """Return whether vLLM subtracts the graphs' estimate from the budget."""
    envs = importlib.import_module("vllm.envs")
    value = getattr(envs, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", None)
    return None if value is None else bool(value)


def _parameters(runner: Any) -> dict[str, Any]:  # noqa: ANN401 - vLLM's
    """Return the bytes of the parameters, each storage counted once.

    The CPU backend repacks weights and leaves their parameters empty.
    """
    model = runner.get_model() if hasattr(runner, "get_model") else None
    if model is None:
        return {}
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in model.parameters()
    }
    return {"parameters": sum(storages.values())}


def _kv_cache(runner: Any) -> dict[str, Any]:  # noqa: ANN401 - vLLM's
    config = getattr(runner, "kv_cache_config", None)
    if config is None:
        return {}
    return {
        "num_blocks": config.num_blocks,
        "kv_cache": sum(tensor.size for tensor in config.kv_cache_tensors),
        "groups": [
            {
                "kind": type(group.kv_cache_spec).__name__,
                "num_layers": len(group.layer_names),
                "block_size": group.kv_cache_spec.block_size,
                "page_size_bytes": group.kv_cache_spec.page_size_bytes,
            }
            for group in config.kv_cache_groups
        ],
    }


def _config(config: Any) -> dict[str, Any]:  # noqa: ANN401 - vLLM's
    """Return the plain values of the engine's configuration."""
    places = (
        ("model_config", ("max_model_len",)),
        ("scheduler_config", ("max_num_seqs", "max_num_batched_tokens")),
        (
            "cache_config",
            (
                *("block_size", "gpu_memory_utilization", "kv_cache_memory_bytes"),
                *("kv_cache_size_tokens", "kv_cache_max_concurrency"),
            ),
        ),
    )
    values: dict[str, Any] = {}
    for part, names in places:
        for name in names:
            value = getattr(getattr(config, part, None), name, None)
            if isinstance(value, _PLAIN):
                values[f"config.{name}"] = value
    return values


def _keep_result(worker_class: type) -> None:
    """Store what determine_available_memory returns: some workers only log it."""
    method: Callable[[Any], int] | None = worker_class.__dict__.get(
        "determine_available_memory"
    )
    if method is None:
        return

    @functools.wraps(method)
    def determine_available_memory(self: Any) -> int:  # noqa: ANN401 - vLLM's worker
        available = method(self)
        self.planner_available_bytes = int(available)
        # A start that fails after this gets no collective_rpc: report it now.
        _report(self.planner_figures())
        return available

    worker_class.determine_available_memory = determine_available_memory  # type: ignore[attr-defined]


def _report(figures: dict[str, Any]) -> None:
    line = json.dumps({"event": "profiled", **figures})
    # One write, so that the lines of several workers do not mix.
    sys.stdout.write(f"\n@planner {line}\n")
    sys.stdout.flush()


def _install() -> None:
    """Patch the worker's class, which vLLM imports before this file."""
    for module, name in _WORKERS:
        worker_class = getattr(sys.modules.get(module), name, None)
        if worker_class is not None:
            _keep_result(worker_class)


_install()
