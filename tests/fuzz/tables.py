"""Tables whose inner values are spoilt: JSON arguments, and files beside a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
_OFFLOADING = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"cpu_bytes_to_use": 1_000_000_000},
}

ARGUMENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "speculative_config",
        {
            "method": "ngram",
            "num_speculative_tokens": 3,
            "prompt_lookup_max": 4,
            "prompt_lookup_min": 2,
        },
    ),
    ("speculative_config", {"method": "mtp", "num_speculative_tokens": 1}),
    ("speculative_config", {"method": "suffix", "suffix_decoding_max_tree_depth": 8}),
    (
        "speculative_config",
        {
            "model": "Qwen/Qwen3-0.6B",
            "num_speculative_tokens": 5,
            "max_model_len": 4096,
            "draft_tensor_parallel_size": 1,
        },
    ),
    (
        "compilation_config",
        {
            "mode": 3,
            "cudagraph_mode": "FULL_AND_PIECEWISE",
            "cudagraph_capture_sizes": [1, 2, 4],
            "max_cudagraph_capture_size": 8,
            "pass_config": {"fuse_allreduce_rms": True},
            "compile_sizes": [1, "x"],
            "custom_ops": ["+rms_norm"],
        },
    ),
    (
        "hf_overrides",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 32768,
            },
            "num_hidden_layers": 4,
            "text_config": {"num_hidden_layers": 4},
            "vision_config": {"image_size": 448, "patch_size": 14, "depth": 2},
            "quantization_config": {"quant_method": "fp8"},
            "layer_types": ["full_attention"],
        },
    ),
    ("kv_transfer_config", {**_NIXL, "kv_buffer_device": "cpu"}),
    ("kv_transfer_config", _OFFLOADING),
    (
        "kv_transfer_config",
        {
            "kv_connector": "MultiConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"connectors": [_NIXL, _OFFLOADING]},
        },
    ),
    ("limit_mm_per_prompt", {"image": 2, "video": 1, "audio": 1}),
    (
        "limit_mm_per_prompt",
        {
            "image": {"count": 2, "width": 512, "height": 512},
            "video": {"count": 1, "num_frames": 32},
            "audio": {"count": 1, "length": 100},
        },
    ),
    (
        "mm_processor_kwargs",
        {
            "max_pixels": 1003520,
            "min_pixels": 3136,
            "max_dynamic_patch": 6,
            "size": {"longest_edge": 1000, "shortest_edge": 100},
            "max_soft_tokens": 280,
        },
    ),
    ("eplb_config", {"window_size": 100, "num_redundant_experts": 2}),
    ("attention_config", {"backend": "FLASHINFER", "flash_attn_version": 3}),
    ("kernel_config", {"moe_backend": "triton"}),
    ("media_io_kwargs", {"video": {"num_frames": 40, "fps": 1}}),
)
"""Arguments, each with a table that is right."""

_PARAMS: dict[str, Any] = {
    "dim": 4096,
    "n_layers": 32,
    "head_dim": 128,
    "hidden_dim": 14336,
    "n_heads": 32,
    "n_kv_heads": 8,
    "norm_eps": 1e-5,
    "vocab_size": 131072,
    "rope_theta": 1e6,
    "max_position_embeddings": 32768,
    "sliding_window": [None, 4096],
    "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "NO_SCALES"},
    "yarn": {"factor": 4, "original_max_position_embeddings": 8192, "beta": 32},
}
_IMAGES = {
    "size": {"longest_edge": 12845056, "shortest_edge": 3136},
    "crop_size": {"height": 336, "width": 336},
    "patch_size": 14,
    "merge_size": 2,
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "max_dynamic_patch": 12,
    "feature_size": 128,
    "sampling_rate": 16000,
    "chunk_length": 30,
    "hop_length": 160,
    "max_tiles": 12,
    "candidate_resolutions": [[384, 384]],
}
_WHISPER = {
    "encoder_args": {
        "audio_encoding_args": {"num_mel_bins": 128, "window_size": 400},
        "dim": 1280,
        "n_layers": 32,
        "hidden_dim": 5120,
        "n_heads": 20,
    },
    "downsample_args": {"downsample_factor": 4},
}

MISTRAL: tuple[Mapping[str, Any], ...] = (
    _PARAMS,
    {**_PARAMS, "moe": {"num_experts": 8, "num_experts_per_tok": 2}},
    {
        **_PARAMS,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "moe": {
            "num_experts": 128,
            "num_experts_per_tok": 4,
            "num_shared_experts": 1,
            "expert_hidden_dim": 4096,
            "first_k_dense_replace": 3,
        },
    },
    {
        **_PARAMS,
        "vision_encoder": {
            "hidden_size": 1024,
            "num_channels": 3,
            "image_size": 1540,
            "patch_size": 14,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
        },
    },
    {**_PARAMS, "multimodal": {"whisper_model_args": _WHISPER}},
)
"""params.json of models in Mistral's own format."""

BESIDE: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "hf_quant_config.json",
        {
            "producer": {"name": "modelopt"},
            "quantization": {
                "quant_algo": "NVFP4",
                "kv_cache_quant_algo": "FP8",
                "group_size": 16,
                "exclude_modules": ["lm_head", "*x*"],
            },
        },
    ),
    ("preprocessor_config.json", _IMAGES),
    ("processor_config.json", {"image_processor": _IMAGES, "audio_seq_length": 188}),
    (
        "whisper-large-v3/config.json",
        {"d_model": 1280, "encoder_layers": 32, "encoder_attention_heads": 20},
    ),
)
"""Files beside a model's config."""
