"""Engine arguments as words of a release's `vllm serve` line.

What the parsers of the releases take was recorded from them (`tools/record_parser.py`);
the tests parse every line again with those records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from planner.releases import NEWEST_RELEASE, Release
from planner.units import parse_size

_ONLY_ON = (
    "aggregate_engine_logging",
    "data_parallel_multi_port_external_lb",
    "disable_log_stats",
)
"""Switches without a --no-...: off is how they stand anyway."""

_WITHOUT_FLAG = ("enable_mm_processor_stats",)
"""Arguments of the engine that no command line takes."""

PLANNER_ONLY = (
    *("node_gpus", "node_memory_gib"),
    *("disk_gb_per_second", "pcie_gb_per_second"),
)
"""What is told to the planner and not to vLLM: the machines."""

_SECRET = "hf_token"
"""Read from HF_TOKEN by vLLM too; a line lies in logs and files."""

SEVERAL_WORDS = (
    *("allowed_media_domains", "collect_detailed_traces", "cudagraph_capture_sizes"),
    *("cpu_offload_params", "offload_params"),
    *("ignore_patterns", "kv_cache_dtype_skip_layers", "logits_processors"),
    *("lora_target_modules", "numa_bind_cpus", "numa_bind_nodes"),
    *("served_model_name", "sleep_preserve_parameter_names"),
)
"""Lists that are written as one word an item; other lists are JSON."""

_JOINED = ("device_ids",)
"""Lists that are written with commas."""

_SERVER_ONLY = ("aggregate_engine_logging", "enable_log_requests")
"""Arguments of the server's engine, which the class refuses or does not use."""

_SIZES_OWN_FLAGS = (0, 11, 1)
"""Since then CUDA graph sizes have flags of their own names."""


def flags(
    arguments: Mapping[str, object], release: Release = NEWEST_RELEASE
) -> list[str]:
    """Return arguments as the words that a release's command line takes.

    None stands for not given. A Hub token is left out: vLLM reads HF_TOKEN as well.

    >>> flags({"max_model_len": 4096, "enforce_eager": True})
    ['--max-model-len', '4096', '--enforce-eager']

    Source: vLLM 0.33.0 `engine/arg_utils.py` EngineArgs.add_cli_args,
    `utils/argparse_utils.py` FlexibleArgumentParser; of older releases likewise.
    """
    words: list[str] = []
    for name, value in for_release(arguments, release).items():
        words += _flag(name, value)
    return words


def python_values(
    arguments: Mapping[str, object], release: Release = NEWEST_RELEASE
) -> dict[str, Any]:
    """Return arguments as a release's `LLM` class takes them: values, not texts.

    What a server alone has is left out.

    >>> python_values({"max_model_len": "auto", "kv_cache_memory_bytes": "1GiB"})
    {'max_model_len': -1, 'kv_cache_memory_bytes': 1073741824}

    Source: vLLM 0.33.0 `entrypoints/llm.py` LLM, `engine/arg_utils.py` EngineArgs.
    """
    return {
        name: _python_value(name, value)
        for name, value in for_release(arguments, release).items()
        if name not in _SERVER_ONLY
    }


def _python_value(name: str, value: object) -> object:
    if name == "max_model_len" and value == "auto":
        return -1
    if name == "kv_cache_memory_bytes" and isinstance(value, str):
        return parse_size(value)
    return [value] if name == "cuda_graph_sizes" else value


def for_release(arguments: Mapping[str, object], release: Release) -> dict[str, object]:
    """Return arguments under the names that a release has for them; None left out."""
    given = {
        name: value
        for name, value in arguments.items()
        if value is not None and name not in PLANNER_ONLY
    }
    sizes = given.get("cudagraph_capture_sizes")
    if sizes is not None and (not sizes or not release.since(*_SIZES_OWN_FLAGS)):
        # A flag for several words takes at least one: no size at all is JSON.
        del given["cudagraph_capture_sizes"]
        given["compilation_config"] = {
            **_mapping(given.get("compilation_config")),
            "cudagraph_capture_sizes": _items(sizes),
        }
    if not release.since(*_SIZES_OWN_FLAGS) and "max_cudagraph_capture_size" in given:
        given["cuda_graph_sizes"] = given.pop("max_cudagraph_capture_size")
    return given


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, Iterable) else []


def _flag(name: str, value: object) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if name in _WITHOUT_FLAG or (name == _SECRET and not isinstance(value, bool)):
        return []
    if isinstance(value, bool):
        return _switch(name, flag, is_on=value)
    if isinstance(value, list | tuple | set | frozenset):
        return _list(name, flag, sorted(value) if isinstance(value, set) else value)
    return _with_value(flag, _text(name, value))


def _switch(name: str, flag: str, *, is_on: bool) -> list[str]:
    if is_on:
        return [flag]
    return [] if name in (*_ONLY_ON, _SECRET) else ["--no-" + flag.removeprefix("--")]


def _list(name: str, flag: str, values: Iterable[object]) -> list[str]:
    if name in _JOINED:
        return [flag, ",".join(map(str, values))]
    if name not in SEVERAL_WORDS:
        return [flag, json.dumps(list(values))]
    words = list(map(str, values))
    if not words:
        return []
    return [*_with_value(flag, words[0]), *words[1:]]


def _with_value(flag: str, text: str) -> list[str]:
    """Keep a value that looks like a flag from being read as one."""
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def _text(name: str, value: object) -> str:
    if isinstance(value, Mapping):
        return json.dumps(_plain(value))
    if name == "kv_cache_memory_bytes" and isinstance(value, str):
        return str(parse_size(value))
    return str(value)


def _plain(value: object) -> object:
    """Return tables and lists of any kind as JSON knows them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
