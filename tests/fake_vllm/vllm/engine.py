"""The stand-in's engine: its log, its one worker, its requests."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

from vllm.v1.worker import cpu_worker, gpu_worker

TOTAL = 16 << 30
BLOCK_SIZE = 128


def scenario() -> dict[str, Any]:
    return dict(json.loads(os.environ.get("FAKE_VLLM", "{}")))


def log(words: str) -> None:
    line = f"(EngineCore pid={os.getpid()}) INFO 11-21 15:15:09 [fake.py:1] {words}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    if scenario().get("hang") and scenario()["hang"] in words:
        time.sleep(3600)


def is_on_gpu() -> bool:
    return "CUDA_VISIBLE_DEVICES" in os.environ


class Engine:
    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self.model_config = SimpleNamespace(
            skip_tokenizer_init=bool(arguments.get("skip_tokenizer_init")),
            max_model_len=arguments.get("max_model_len") or 2048,
        )
        self.vllm_config = SimpleNamespace(
            model_config=self.model_config,
            scheduler_config=SimpleNamespace(
                max_num_seqs=128, max_num_batched_tokens=2048
            ),
            cache_config=SimpleNamespace(
                block_size=BLOCK_SIZE,
                gpu_memory_utilization=arguments["gpu_memory_utilization"],
                kv_cache_memory_bytes=None,
                num_gpu_blocks=None,
            ),
        )
        self._requests: dict[str, int] = {}
        self._running = 0

    def start(self) -> None:
        log("Initializing a V1 LLM engine (v0.33.0) with config: model='fake'")
        module, name = self.arguments["worker_extension_cls"].split(".")
        probe = getattr(importlib.import_module(module), name)
        # As vLLM does it: the worker's class gets one more base.
        own = gpu_worker.Worker if is_on_gpu() else cpu_worker.CPUWorker
        worker_class = type("Worker", (own, probe), {})
        worker = worker_class(self.vllm_config)
        for _ in range(scenario().get("strays", 0)):
            subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(600)"],
                start_new_session=True,
            )
        log(f"Devices: {os.environ.get('CUDA_VISIBLE_DEVICES', 'cpu')}")
        log("Starting to load model fake...")
        log("Loading weights took 0.10 seconds")
        log("Warming up model for the compilation...")
        log("Warming up done.")
        available = worker.determine_available_memory()
        log(f"Auto set ({available / 2**30:.2f}/16.0) GiB for KV cache on node 0")
        if "error" in scenario():
            raise ValueError(scenario()["error"])
        blocks = available // (BLOCK_SIZE * 1024)
        worker.model_runner.allocate(blocks)
        self.vllm_config.cache_config.num_gpu_blocks = blocks
        log(f"CPU KV cache size: {blocks * BLOCK_SIZE:,} tokens")
        log("init engine (profile, create kv cache, warmup model) took 0.30 s")
        self._worker = worker

    def call_workers(self, method: str) -> list[Any]:
        return [getattr(self._worker, method)()]

    def answer(self, prompt: list[int], max_tokens: int) -> list[int]:
        return [(sum(prompt) + step) % 97 for step in range(max_tokens)]

    def metrics(self) -> dict[str, float]:
        return {
            "vllm:num_requests_running": float(self._running),
            "vllm:num_requests_waiting": 0.0,
            "vllm:kv_cache_usage_perc": self._running / 8,
            "vllm:num_preemptions": 1.0 if self._requests else 0.0,
        }

    def add_request(self, number: str, prompt: dict[str, Any], asked: Any) -> None:
        self._requests[number] = asked.given["max_tokens"]

    def has_unfinished_requests(self) -> bool:
        return bool(self._requests)

    def step(self) -> list[Any]:
        self._running = len(self._requests)
        number = next(iter(self._requests))
        del self._requests[number]
        return [SimpleNamespace(finished=True)]
