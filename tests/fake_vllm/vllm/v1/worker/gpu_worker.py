"""The stand-in's worker on a GPU of 16 GiB, with the attributes that vLLM's has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from vllm.v1.worker.cpu_worker import Runner

GIB = 1 << 30


class Worker:
    def __init__(self, vllm_config: Any) -> None:
        self.vllm_config = vllm_config
        self.rank = 0
        self.device = SimpleNamespace(type="cuda")
        self.model_runner = Runner()
        self.model_runner.model_memory_usage = 2.0 * GIB
        self.init_snapshot = SimpleNamespace(
            total_memory=16 * GIB, free_memory=15 * GIB
        )
        share = vllm_config.cache_config.gpu_memory_utilization
        self.requested_memory = int(share * 16 * GIB)

    def determine_available_memory(self) -> int:
        self.total_consumed = 3 * GIB
        self.cudagraph_memory_estimate = GIB // 4
        self.peak_activation_memory = GIB + GIB // 4
        self.available_kv_cache_memory_bytes = self.requested_memory - (
            self.total_consumed + self.peak_activation_memory
        )
        return self.available_kv_cache_memory_bytes
