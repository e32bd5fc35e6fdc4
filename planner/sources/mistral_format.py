"""params.json of Mistral's models that listen, as vLLM makes a config of it.

Other models in Mistral's own format have a config.json that says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXT = {
    "dim": "hidden_size",
    "hidden_dim": "intermediate_size",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "n_layers": "num_hidden_layers",
    "norm_eps": "rms_norm_eps",
}
_AUDIO = {
    "dim": "d_model",
    "hidden_dim": "encoder_ffn_dim",
    "n_heads": "encoder_attention_heads",
    "n_layers": "encoder_layers",
}
_LONGEST = 128_000
"""Positions where the file does not say how many."""


def listening_config(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the config of a model that listens; None for other models.

    Source: vLLM 0.33.0 `transformers_utils/configs/mistral.py` adapt_config_dict,
    _remap_mistral_audio_args.
    """
    args = _map(_map(params, "multimodal"), "whisper_model_args")
    encoder, downsampling = _map(args, "encoder_args"), _map(args, "downsample_args")
    sound = _map(encoder, "audio_encoding_args")
    if not (sound and downsampling):
        return None
    is_causal = bool(encoder.get("causal"))
    name = "VoxtralRealtimeGeneration" if is_causal else _VOXTRAL
    return {
        "model_type": "voxtral",
        "architectures": [name],
        "text_config": _text_config(dict(params or {})),
        "audio_config": {
            **{ours: encoder[given] for given, ours in _AUDIO.items()},
            "num_mel_bins": sound["num_mel_bins"],
            "window_size": sound["window_size"],
            "downsample_factor": downsampling["downsample_factor"],
            "max_source_positions": encoder.get("max_source_positions") or 1500,
        },
    }


_VOXTRAL = "VoxtralForConditionalGeneration"


def _text_config(params: dict[str, Any]) -> dict[str, Any]:
    longest = params.get("max_position_embeddings", _LONGEST)
    return {
        **{_TEXT.get(name, name): value for name, value in params.items()},
        "architectures": ["MistralForCausalLM"],
        "max_position_embeddings": longest,
        "max_seq_len": params.get("max_seq_len", longest),
        "model_type": params.get("model_type", "transformer"),
        "tie_word_embeddings": params.get("tied_embeddings", False),
    }


def _map(of: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    """Return a nested mapping, empty where there is none."""
    value = (of or {}).get(name)
    return value if isinstance(value, Mapping) else {}
