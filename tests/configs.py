"""config.json of a few well-known models, cut down to what decides memory."""

from __future__ import annotations

from typing import Any

from planner.engine.gpu import GPU
from planner.models.architecture import ModelArchitecture
from planner.models.families import read
from planner.models.files import ModelFiles
from planner.units import GIB

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}

QWEN3_SMALL: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": True,
}

QWEN3_MOE: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "torch_dtype": "bfloat16",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
}

GPT2: dict[str, Any] = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_embd": 1280,
    "n_layer": 36,
    "n_head": 20,
    "n_positions": 1024,
    "vocab_size": 50257,
}

BERT: dict[str, Any] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "torch_dtype": "float32",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}


def architecture(config: dict[str, Any], **changes: Any) -> ModelArchitecture:
    """Read a config with some fields replaced."""
    return read(ModelFiles(name="org/model", config={**config, **changes}))


def gpu(**changes: Any) -> GPU:
    """Return an H100 with some facts replaced."""
    facts: dict[str, Any] = {
        "name": "H100",
        "total_memory_bytes": int(79.19 * GIB),
        "compute_capability": (9, 0),
        "device_name": "NVIDIA H100 80GB HBM3",
        "num_sms": 132,
    }
    return GPU(**{**facts, **changes})
