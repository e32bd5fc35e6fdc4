"""Answer many cases without starting them: the configuration, a model without memory.

usage: VLLM_PYTHON tools/meta_worker.py TASKS.jsonl SECONDS

Each case is vLLM's own configuration of a start, with its defaults filled in, and the
bytes of the model that the first rank builds on PyTorch's meta device, before kernels
repack quantised weights. `tools/release/answers.py` starts it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dry_start
import dry_worker
from offline import report

RESOLVED = {
    "model_config": ("max_model_len", "dtype", "quantization", "runner_type"),
    "cache_config": (
        *("block_size", "cache_dtype", "gpu_memory_utilization"),
        *("enable_prefix_caching", "mamba_cache_mode", "mamba_block_size"),
    ),
    "scheduler_config": (
        *("max_num_batched_tokens", "max_num_seqs", "async_scheduling"),
        "enable_chunked_prefill",
    ),
    "compilation_config": (
        *("cudagraph_mode", "max_cudagraph_capture_size", "mode"),
        "cudagraph_capture_sizes",
    ),
}
"""What memory depends on, in each part of vLLM's configuration."""


def answer(task: dict[str, Any]) -> None:
    """Report the configuration, then the weights."""
    config = dry_start._config(task)
    report("resolved", values=dict(_resolved(config)))
    try:
        report("built", weights=_weights(config))
    except Exception as error:  # noqa: BLE001 - some models need a device
        report("unbuilt", error=f"{type(error).__name__}: {error}"[:300])


def _resolved(config: Any) -> Any:
    for part, names in RESOLVED.items():
        for name in names:
            value = getattr(getattr(config, part), name, None)
            if isinstance(value, list | tuple):
                value = [len(value), max(value, default=0)]
            plain = isinstance(value, bool | int | float | str | list)
            yield name, value if plain or value is None else str(value)


def _weights(config: Any) -> int:
    """Return the bytes of parameters and buffers of the first rank."""
    import dry_ranks
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.v1.worker import gpu_worker

    dry_ranks._separate_replicas(config)
    dry_ranks._without_peers()
    with set_current_vllm_config(config):
        gpu_worker.init_worker_distributed_environment(
            config, 0, "tcp://127.0.0.1:1", 0, "nccl"
        )
        torch.set_default_dtype(config.model_config.dtype)
        with torch.device("meta"):
            model = initialize_model(config)
    return sum({id(one): one.nbytes for one in held(model)}.values())


def held(model: Any) -> Iterator[Any]:
    """Yield parameters, buffers, and tensors that modules hold as plain attributes.

    Source: vLLM 0.33.0 `model_executor/models/qwen3_vl.py` deepstack_input_embeds.
    """
    yield from model.parameters()
    yield from model.buffers()
    for module in model.modules():
        for value in vars(module).values():
            for one in value if isinstance(value, list | tuple) else [value]:
                if getattr(getattr(one, "device", None), "type", "") == "meta":
                    yield one


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    dry_worker.main([json.loads(line) for line in lines], float(sys.argv[2]), answer)
