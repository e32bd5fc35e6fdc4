"""The config.json of a GGUF file: the one that is given, or its metadata in its words.

vLLM up to 0.23 reads the metadata through Transformers; the package vllm-gguf-plugin
needs a config.json, which `--hf-config-path` or `--tokenizer` may name.

Source: Transformers 5.20 `integrations/ggml.py` GGUF_CONFIG_MAPPING; vLLM 0.23.0
`transformers_utils/config.py` get_config, `transformers_utils/gguf_utils.py`
maybe_patch_hf_config_from_gguf.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from planner.errors import PlannerError, UnknownArchitecture
from planner.models.files import ModelFiles
from planner.user_files import check_values

METADATA = "metadata of "
"""How the source of a config begins that was made of a file's metadata."""

_FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}
_ARCHITECTURES = {
    "gemma2": ("gemma2", "Gemma2ForCausalLM"),
    "gemma3": ("gemma3_text", "Gemma3ForCausalLM"),
    "llama": ("llama", "LlamaForCausalLM"),
    "phi3": ("phi3", "Phi3ForCausalLM"),
    "qwen2": ("qwen2", "Qwen2ForCausalLM"),
    "qwen2moe": ("qwen2_moe", "Qwen2MoeForCausalLM"),
    "qwen3": ("qwen3", "Qwen3ForCausalLM"),
    "qwen3moe": ("qwen3_moe", "Qwen3MoeForCausalLM"),
}
_NORMALISED = ("qwen3_moe",)
"""Whose experts' weights add up to one, which the metadata does not say."""
_TOKENS = "tokenizer.ggml.tokens"
_HEAD = "output.weight"
_NAME_A_CONFIG = (
    "Name its config.json: hf_config_path (or tokenizer) with the name or folder of "
    "the model that it was made from."
)


def config_of(
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Any],
    beside: bytes | None,
    name: str,
) -> tuple[dict[str, Any], str]:
    """Return the config of a GGUF file and where it is from; empty where unknown.

    `beside` is the text of the config.json in its folder, if there is one.

    Raises:
        PlannerError: where that file is not JSON, or has too many values.
    """
    if beside is not None:
        check_values(beside, f"config.json beside {name}")
        try:
            given = json.loads(beside)
        except (ValueError, RecursionError) as error:
            raise PlannerError(f"config.json beside {name} is not JSON.") from error
        if not isinstance(given, dict):
            raise PlannerError(f"config.json beside {name} is not a JSON object.")
        return _patched(given, tensors), f"config.json beside {name}"
    return _patched(_translated(metadata), tensors), f"{METADATA}{name}"


def with_config(files: ModelFiles, source: ModelFiles) -> ModelFiles:
    """Return a GGUF file's model with the config.json of another."""
    return _with_config(files, source)


@lru_cache(maxsize=32)
def _with_config(files: ModelFiles, source: ModelFiles) -> ModelFiles:
    return replace(
        files,
        config=_patched(dict(source.config), files.gguf_tensors),
        source=source.source,
        is_certain=source.is_certain,
    )


def checked(files: ModelFiles) -> ModelFiles:
    """Return a GGUF file's model, where its config is known and of text only.

    Raises:
        PlannerError: where it has no config.json and its metadata is not enough.
        UnknownArchitecture: for a model of images or sounds.
    """
    if not files.config:
        raise PlannerError(
            f"{files.name}: the metadata of this GGUF file is of an architecture whose "
            f"config.json the planner cannot make of it. {_NAME_A_CONFIG}"
        )
    if "text_config" in files.config:
        raise UnknownArchitecture(
            f"{files.name}: GGUF files of models with images or sounds are not "
            "modelled. Plan the model's FP8, AWQ or NVFP4 release."
        )
    return files


def _translated(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata in config.json's words, empty for other architectures."""
    own = metadata.get("general.architecture")
    found = _ARCHITECTURES.get(str(own))
    # llama.cpp calls Mixtral llama too, which Transformers would not tell apart.
    if found is None or (own == "llama" and metadata.get("llama.expert_count")):
        return {}
    model_type, architecture = found
    config = {
        ours: metadata[f"{own}.{theirs}"]
        for theirs, ours in _FIELDS.items()
        if f"{own}.{theirs}" in metadata
    }
    tokens = metadata.get(_TOKENS, metadata.get(f"{own}.vocab_size"))
    config["vocab_size"] = len(tokens) if isinstance(tokens, list) else tokens
    if model_type in _NORMALISED:
        config["norm_topk_prob"] = True
    return {**config, "model_type": model_type, "architectures": [architecture]}


def _patched(config: dict[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config whose head is tied where the file has none.

    Source: vLLM 0.23.0 `model_loader/gguf_loader.py` load_model;
    vllm-gguf-plugin 0.0.5 `weights_adapter/default.py` update_tie_word_embeddings.
    """
    if not config:
        return config
    return {**config, "tie_word_embeddings": _HEAD not in tensors}
