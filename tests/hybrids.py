"""config.json of models with recurrent layers, cut down to what decides memory."""

from __future__ import annotations

from typing import Any

from planner.engine.layout import ParallelLayout
from planner.memory.weights import stage_weights
from tests.configs import architecture

QWEN3_NEXT: dict[str, Any] = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "torch_dtype": "bfloat16",
    "hidden_size": 8,
    "intermediate_size": 16,
    "moe_intermediate_size": 4,
    "shared_expert_intermediate_size": 6,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 4,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
    "vocab_size": 64,
    "max_position_embeddings": 10,
}

NEMOTRON_H: dict[str, Any] = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "torch_dtype": "bfloat16",
    "hidden_size": 8,
    "hybrid_override_pattern": "M-*E",
    "intermediate_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "mamba_num_heads": 4,
    "mamba_head_dim": 2,
    "n_groups": 2,
    "ssm_state_size": 3,
    "conv_kernel": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 6,
    "moe_shared_expert_intermediate_size": 10,
    "n_shared_experts": 1,
    "vocab_size": 64,
    "max_position_embeddings": 4096,
}

JAMBA: dict[str, Any] = {
    "architectures": ["JambaForCausalLM"],
    "model_type": "jamba",
    "torch_dtype": "bfloat16",
    "hidden_size": 32,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "expert_layer_period": 2,
    "expert_layer_offset": 0,
    "mamba_d_state": 3,
    "vocab_size": 64,
}

MAMBA: dict[str, Any] = {
    "architectures": ["MambaForCausalLM"],
    "model_type": "mamba",
    "torch_dtype": "bfloat16",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "state_size": 3,
    "vocab_size": 64,
}

MAMBA2: dict[str, Any] = {
    "architectures": ["Mamba2ForCausalLM"],
    "model_type": "mamba2",
    "torch_dtype": "bfloat16",
    "hidden_size": 4,
    "num_hidden_layers": 2,
    "state_size": 3,
    "n_groups": 2,
    "num_heads": 4,
    "head_dim": 2,
    "vocab_size": 64,
}

FALCON_H1: dict[str, Any] = {
    "architectures": ["FalconH1ForCausalLM"],
    "model_type": "falcon_h1",
    "torch_dtype": "bfloat16",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "mamba_d_ssm": 8,
    "mamba_n_heads": 4,
    "mamba_n_groups": 2,
    "mamba_d_state": 3,
    "vocab_size": 64,
    "max_position_embeddings": 10,
}

GRANITE_HYBRID: dict[str, Any] = {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "model_type": "granitemoehybrid",
    "torch_dtype": "bfloat16",
    "hidden_size": 8,
    "intermediate_size": 6,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "shared_intermediate_size": 10,
    "layer_types": ["mamba", "attention"],
    "mamba_n_heads": 4,
    "mamba_n_groups": 2,
    "mamba_d_state": 3,
    "vocab_size": 64,
    "max_position_embeddings": 10,
}

LFM2: dict[str, Any] = {
    "architectures": ["Lfm2ForCausalLM"],
    "model_type": "lfm2",
    "torch_dtype": "bfloat16",
    "hidden_size": 8,
    "block_dim": 8,
    "conv_dim": 8,
    "intermediate_size": 12,
    "block_multiple_of": 4,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "full_attn_idxs": [1],
    "vocab_size": 64,
    "max_position_embeddings": 10,
}

OLMO_HYBRID: dict[str, Any] = {
    "architectures": ["OlmoHybridForCausalLM"],
    "model_type": "olmo_hybrid",
    "torch_dtype": "bfloat16",
    "hidden_size": 16,
    "intermediate_size": 12,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 10,
}

ZAMBA2: dict[str, Any] = {
    "architectures": ["Zamba2ForCausalLM"],
    "model_type": "zamba2",
    "torch_dtype": "bfloat16",
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 3,
    "layers_block_type": ["mamba", "hybrid", "hybrid"],
    "num_attention_heads": 2,
    "n_mamba_heads": 4,
    "mamba_d_state": 3,
    "mamba_ngroups": 2,
    "adapter_rank": 4,
    "vocab_size": 64,
    "max_position_embeddings": 10,
}


def parts(config: dict[str, Any], ranks: int = 1, **changes: object) -> dict[str, int]:
    """Bytes of the only stage's parts in bfloat16, by name."""
    layout = ParallelLayout(tensor_parallel_size=ranks)
    (stage,) = stage_weights(architecture(config, **changes), layout, "bfloat16")
    return {part.name: part.size_bytes for part in stage.parts}
