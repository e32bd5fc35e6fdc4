"""A field for every engine argument that the planner knows, by vLLM's groups."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from planner.widgets import parsing
from planner.widgets.fields import (
    VLLMS_CHOICE,
    ChoiceField,
    EntryField,
    Field,
    SwitchField,
)

_DATA = Path(__file__).parent.parent / "data" / "arguments.json"

SECRET = ("hf_token",)
"""Has no control: a page is no place for a token. vLLM reads HF_TOKEN."""

_TITLES = {
    "Model": "Model",
    "Load": "Load",
    "Cache": "Cache",
    "Parallel": "Parallel",
    "Scheduler": "Scheduler",
    "LoRA": "LoRA",
    "MultiModal": "Multimodal",
    "Speculative": "Speculative",
    "Offload": "Offload",
    "Compilation": "Compilation",
    "Attention": "Kernels",
    "Kernel": "Kernels",
    "Mamba": "Kernels",
    "Transfer": "Transfer between engines",
    "StructuredOutputs": "Output",
    "Logging": "Logs and metrics",
    "Observability": "Logs and metrics",
    "Vllm": "Other",
    "Server": "Other",
}
"""vLLM's configuration classes, as the page calls them, in the page's order."""

_MOVED = {
    **dict.fromkeys(
        ("speculative_config", "spec_method", "spec_model", "spec_tokens"),
        "Speculative",
    ),
    **dict.fromkeys(
        ("compilation_config", "optimization_level", "performance_mode"), "Compilation"
    ),
    **dict.fromkeys(
        (
            *("attention_config", "gdn_prefill_backend", "kernel_config"),
            *("kda_decode_backend", "kda_prefill_backend", "mamba_config"),
        ),
        "Kernel",
    ),
    **dict.fromkeys(
        (
            *("kv_transfer_config", "kv_events_config", "ec_transfer_config"),
            *("ec_manager_config", "weight_transfer_config"),
        ),
        "Transfer",
    ),
    **dict.fromkeys(
        (
            *("aggregate_engine_logging", "disable_log_stats", "enable_log_requests"),
            *("enable_mm_processor_stats", "profiler_config"),
        ),
        "Logging",
    ),
    **dict.fromkeys(
        ("structured_outputs_config", "reasoning_config"), "StructuredOutputs"
    ),
    "engram_config": "Model",
    "diffusion_config": "Model",
    "model_weights": "Model",
}
"""What vLLM lists under no heading of its own, where people look for it."""

HINTS = {
    "dtype": "of weights and activations",
    "language_model_only": "no images, videos or sounds",
    "trust_remote_code": "code that comes with the model",
    "max_num_batched_tokens": "tokens per step, at most",
    "pipeline_parallel_size": "stages of layers",
    "data_parallel_size": "copies of the engine",
    "enable_expert_parallel": "whole experts per GPU",
    "enforce_eager": "no CUDA graphs: less memory, slower",
    "block_size": "tokens in a KV cache block",
    "kv_cache_memory_bytes": "fixes the KV cache's size",
    "enable_prefix_caching": "keeps what prompts begin with alike",
    "enable_chunked_prefill": "cuts long prompts into steps",
    "cudagraph_capture_sizes": "batch sizes with a CUDA graph",
    "cpu_offload_gb": "GiB of weights in host memory",
    "kv_offloading_size": "GiB of host memory for KV blocks",
    "enable_lora": "room for adapters",
    "max_loras": "adapters in one batch",
    "max_lora_rank": "largest rank of an adapter",
    "fully_sharded_loras": "cuts both factors over the GPUs",
    "lora_dtype": "of the adapters",
    "max_cpu_loras": "adapters in host memory",
    "lora_target_modules": "the only layers that adapters change",
    "specialize_active_lora": "graphs for fewer adapters at once",
    "enable_mixed_moe_lora_format": "gate and up of experts apart",
    "enable_tower_connector_lora": "adapters of encoders, too",
    "enable_moe_shared_loras": "outer factors once for all experts",
    "mm_encoder_tp_mode": "encoders cut over GPUs, or whole",
    "mm_processor_cache_gb": "GiB of host memory for processed images",
    "skip_mm_profiling": "no images in the profile run: may run out",
    "offload_backend": "uva: a budget; prefetch: groups of layers",
    "offload_group_size": "layers in a group",
    "offload_num_in_group": "of them in host memory",
    "offload_prefetch_step": "layers copied ahead of their turn",
    "enable_sleep_mode": "weights go to host memory while it sleeps",
    "load_format": "how weights are read from disk",
    "max_cudagraph_capture_size": "largest batch with a CUDA graph",
    "spec_method": "short for speculative_config's method",
    "spec_model": "short for its model, the draft",
    "spec_tokens": "short for its num_speculative_tokens",
    "limit_mm_per_prompt": "images, videos, sounds per prompt",
    "async_scheduling": "prepares the next step ahead",
    "performance_mode": "what vLLM's defaults aim at",
    "decode_context_parallel_size": "GPUs that share a request's KV cache",
}

_ENTRIES = {
    "whole": parsing.WHOLE,
    "count": parsing.COUNT,
    "length": parsing.LENGTH,
    "number": parsing.NUMBER,
    "list": parsing.LIST,
    "json": parsing.JSON,
}


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """Return group, kind, choices and default of each argument, in vLLM's order.

    Source: vLLM 0.33.0 `engine/arg_utils.py` EngineArgs.add_cli_args
    (`tools/argument_table.py`).
    """
    rows: dict[str, Mapping[str, Any]] = json.loads(_DATA.read_text(encoding="utf-8"))
    return rows


def group_of(name: str) -> str:
    """Return the heading under which an argument stands.

    >>> group_of("enable_lora"), group_of("spec_model")
    ('LoRA', 'Speculative')
    """
    return _TITLES[_MOVED.get(name, table()[name]["group"])]


def field_of(name: str) -> Field:
    """Return a control for an argument, with vLLM's own default shown in it."""
    row = table()[name]
    field = _made(name, row)
    field.show_default(row.get("default"))
    return field


def _made(name: str, row: Mapping[str, Any]) -> Field:
    hint = HINTS.get(name, "")
    if row["kind"] == "switch":
        return SwitchField(name, hint)
    if row["kind"] == "choice":
        options = [(str(choice), choice) for choice in row["choices"]]
        return ChoiceField(name, hint, [(VLLMS_CHOICE, None), *options])
    if name == "kv_cache_memory_bytes":
        return EntryField(name, hint, parsing.TEXT)
    return EntryField(name, hint, _ENTRIES.get(row["kind"], parsing.TEXT))


def groups(without: frozenset[str]) -> dict[str, list[Field]]:
    """Return a field for each argument but these and secrets, by heading."""
    made: dict[str, list[Field]] = {title: [] for title in _TITLES.values()}
    for name in table():
        if name not in without and name not in SECRET:
            made[group_of(name)].append(field_of(name))
    return {title: fields for title, fields in made.items() if fields}
