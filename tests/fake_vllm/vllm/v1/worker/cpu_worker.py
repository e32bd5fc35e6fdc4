"""The stand-in's worker, with the attributes that vLLM's has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

PROCESS_BYTES = 700 << 20
BYTES_PER_TOKEN = 1024


class Runner:
    kv_cache_config: Any = None

    def allocate(self, blocks: int) -> None:
        size = 128 * BYTES_PER_TOKEN
        spec = type("FullAttentionSpec", (), {})()
        spec.block_size, spec.page_size_bytes = 128, size // 2
        self.kv_cache_config = SimpleNamespace(
            num_blocks=blocks,
            kv_cache_tensors=[SimpleNamespace(size=blocks * size)],
            kv_cache_groups=[
                SimpleNamespace(kv_cache_spec=spec, layer_names=["0", "1"])
            ],
        )


class CPUWorker:
    def __init__(self, vllm_config: Any) -> None:
        self.vllm_config = vllm_config
        self.rank = 0
        self.device = SimpleNamespace(type="cpu")
        self.model_runner = Runner()
        share = vllm_config.cache_config.gpu_memory_utilization
        self.requested_cpu_memory = int(share * (16 << 30))

    def determine_available_memory(self) -> int:
        return self.requested_cpu_memory - PROCESS_BYTES
