"""What a loaded model consists of: its modules with their tensors, and its caches.

Layers that are alike are listed once. Sizes are those of this rank.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

_LAYER = re.compile(r"(?P<list>.*?\.?(?:layers|blocks|block|h))\.(?P<index>\d+)\.")
_KINDS = (
    "QKVParallelLinear",
    "ColumnParallelLinear",
    "RowParallelLinear",
    "VocabParallelEmbedding",
    "ReplicatedLinear",
    "FusedMoE",
    "RoutedExperts",
)
"""Classes of vLLM that decide how a tensor is cut over ranks, the narrowest first."""
_OF_HEADS = (
    *("total_num_heads", "total_num_kv_heads", "head_size", "v_head_size"),
    *("input_size", "output_size", "num_embeddings", "embedding_dim", "org_vocab_size"),
)
_OF_ATTENTION = (
    *("num_heads", "num_kv_heads", "head_size", "head_size_v", "sliding_window"),
    *("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
    *("attn_type", "has_sink"),
)


def tree(worker: Any) -> dict[str, Any]:
    """Return the model of a worker that has loaded it, as plain values."""
    runner, config = worker.model_runner, worker.vllm_config
    outside: list[dict[str, Any]] = []
    layers: dict[str, dict[int, list[dict[str, Any]]]] = {}
    seen: set[int] = set()
    for name, module in runner.get_model().named_modules():
        entry = _entry(name, module, seen)
        if entry is None:
            continue
        found = _LAYER.match(name)
        if found is None:
            outside.append(entry)
            continue
        entry["name"] = name[found.end() :]
        numbered = layers.setdefault(found["list"], {})
        numbered.setdefault(int(found["index"]), []).append(entry)
    return {
        "model": _facts(config),
        "outside": outside,
        "layers": {name: _folded(numbered) for name, numbered in layers.items()},
        "caches": _caches(runner),
    }


def _entry(name: str, module: Any, seen: set[int]) -> dict[str, Any] | None:
    """Return a module that has tensors of its own or attends; None for others."""
    tensors = []
    own = (
        *module.named_parameters(recurse=False),
        *module.named_buffers(recurse=False),
    )
    for tensor_name, tensor in own:
        storage = tensor.untyped_storage().data_ptr()
        if tensor.device.type == "cpu" or (storage in seen and storage):
            continue
        seen.add(storage)
        dtype = str(tensor.dtype).removeprefix("torch.")
        tensors.append([tensor_name, list(tensor.shape), dtype, tensor.nbytes])
    attention = {
        key: getattr(module, key) for key in _OF_ATTENTION if _is_plain(module, key)
    }
    attends = hasattr(module, "get_kv_cache_spec") or hasattr(module, "attn_backend")
    if not tensors and not attends:
        return None
    entry: dict[str, Any] = {
        "name": name,
        "class": type(module).__name__,
        "kind": _kind(module),
        "tensors": tensors,
    }
    sizes = {key: getattr(module, key) for key in _OF_HEADS if _is_plain(module, key)}
    if sizes:
        entry["sizes"] = sizes
    if attends:
        entry["attention"] = attention
    return entry


def _is_plain(module: Any, name: str) -> bool:
    return isinstance(getattr(module, name, None), int | float | str | bool)


def _kind(module: Any) -> str:
    names = [one.__name__ for one in type(module).__mro__]
    return next((kind for kind in _KINDS if kind in names), "")


def _folded(numbered: dict[int, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the kinds of a list's layers, and the kind of each."""
    kinds: list[list[dict[str, Any]]] = []
    order: dict[int, int] = {}
    for index, entries in sorted(numbered.items()):
        if entries not in kinds:
            kinds.append(entries)
        order[index] = kinds.index(entries)
    return {"kinds": kinds, "layers": order}


def _facts(config: Any) -> dict[str, Any]:
    model, parallel = config.model_config, config.parallel_config
    text = model.hf_text_config
    calls = {
        "hidden_size": model.get_hidden_size,
        "vocab_size": model.get_vocab_size,
        "head_size": model.get_head_size,
        "num_kv_heads": model.get_total_num_kv_heads,
    }
    found = {name: _called(function) for name, function in calls.items()}
    return {
        **found,
        "num_attention_heads": getattr(text, "num_attention_heads", 0),
        "num_hidden_layers": getattr(text, "num_hidden_layers", 0),
        "num_experts": _called(getattr(model, "get_num_experts", None)),
        "architecture": model.architectures[0] if model.architectures else "",
        "model_type": getattr(model.hf_config, "model_type", ""),
        "dtype": str(model.dtype).removeprefix("torch."),
        "quantization": model.quantization,
        "max_model_len": model.max_model_len,
        "runner_type": model.runner_type,
        "is_attention_free": bool(getattr(model, "is_attention_free", False)),
        "tensor_parallel_size": parallel.tensor_parallel_size,
        "pipeline_parallel_size": parallel.pipeline_parallel_size,
        "enable_expert_parallel": parallel.enable_expert_parallel,
    }


def _called(function: Any) -> Any:
    """Return a figure; None for a model that has none of it."""
    try:
        return function()
    except Exception:  # noqa: BLE001 - each model class has another reason
        return None


def _caches(runner: Any) -> dict[str, Any]:
    """Return the distinct KV cache specifications, and that of each layer.

    None where a class checks the size of blocks, which vLLM chooses later (0.31.0's
    Glm5NextIndexerCache).
    """
    kinds: list[dict[str, Any]] = []
    order: dict[str, int] = {}
    try:
        specs = runner.get_kv_cache_spec()
    except AssertionError:
        specs = {}
    for name, spec in specs.items():
        written = {
            "kind": type(spec).__name__,
            "page_size_bytes": spec.page_size_bytes,
            **_plain_fields(spec),
            **_states(spec),
        }
        if written not in kinds:
            kinds.append(written)
        order[name] = kinds.index(written)
    return {"kinds": kinds, "layers": order}


def _states(spec: Any) -> dict[str, Any]:
    """Return the states of a layer without keys and values."""
    shapes = getattr(spec, "shapes", None)
    if shapes is None:
        return {}
    dtypes = [str(dtype).removeprefix("torch.") for dtype in spec.dtypes]
    sizes = [math.prod(shape) for shape in shapes]
    return {"state_sizes": sizes, "state_dtypes": dtypes}


def _plain_fields(spec: Any) -> dict[str, Any]:
    fields = {one.name: getattr(spec, one.name) for one in dataclasses.fields(spec)}
    return {
        name: value if isinstance(value, int | float | str | bool) else str(value)
        for name, value in fields.items()
        if value is not None
    }
