"""Mistral's own format: config.json as vLLM makes it of params.json.

Source: vLLM 0.33.0 `transformers_utils/configs/mistral.py` adapt_config_dict;
`transformers_utils/config.py` MistralConfigParser.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import PlannerError

_FIELDS = {
    "dim": "hidden_size",
    "hidden_dim": "intermediate_size",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "n_layers": "num_hidden_layers",
    "norm_eps": "rms_norm_eps",
    "activation": "hidden_act",
    "tied_embeddings": "tie_word_embeddings",
}
_AUDIO_FIELDS = {
    "dim": "d_model",
    "hidden_dim": "encoder_ffn_dim",
    "n_heads": "encoder_attention_heads",
    "n_layers": "encoder_layers",
}
_MOE_FIELDS = {
    "route_every_n": "moe_layer_freq",
    "first_k_dense_replace": "first_k_dense_replace",
    "num_experts_per_tok": "num_experts_per_tok",
    "num_experts": "n_routed_experts",
    "expert_hidden_dim": "moe_intermediate_size",
    "routed_scale": "routed_scaling_factor",
    "num_shared_experts": "n_shared_experts",
    "num_expert_groups": "n_group",
    "num_expert_groups_per_tok": "topk_group",
}
_YARN_FIELDS = {
    "factor": "factor",
    "original_max_position_embeddings": "original_max_position_embeddings",
    "beta": "beta_fast",
    "alpha": "beta_slow",
}
_DEFAULT_POSITIONS = 128_000
"""Positions where the file does not give them."""
_VOXTRAL = "VoxtralForConditionalGeneration"
_MODEL = ("dim", "n_layers")
"""Fields without which params.json is not one of a model."""
_MOST_LAYERS = 2_000
"""More than any model has: each is written out."""


def mistral_config(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the config of a model in Mistral's format; None where it is not one.

    Values keep the type that the file gives them, also where vLLM would stop.

    Raises:
        PlannerError: naming a field that is missing or no number of layers.
    """
    if not params or not all(name in params for name in _MODEL):
        return None
    text = _text_config(dict(params))
    vision = text.pop("vision_encoder", None)
    if not isinstance(vision, Mapping):
        return voxtral_config(params) or text
    whole = {
        "model_type": "pixtral",
        "architectures": ["PixtralForConditionalGeneration"],
        "text_config": text,
        "vision_config": dict(vision),
    }
    quantised = text.get("quantization_config")
    return {**whole, "quantization_config": quantised} if quantised else whole


def voxtral_config(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the config of an audio model in Mistral's format; None for others.

    Raises:
        PlannerError: naming a field that is missing or no number of layers.

    Source: vLLM 0.33.0 `transformers_utils/configs/mistral.py`
    _remap_mistral_audio_args.
    """
    args = nested(nested(params, "multimodal"), "whisper_model_args")
    encoder, downsampling = (
        nested(args, "encoder_args"),
        nested(args, "downsample_args"),
    )
    sound = nested(encoder, "audio_encoding_args")
    if not (sound and downsampling):
        return None
    _check_there(params or {}, ("n_layers",))
    _check_there(encoder, tuple(_AUDIO_FIELDS), "encoder_args")
    _check_there(sound, ("num_mel_bins", "window_size"), "audio_encoding_args")
    _check_there(downsampling, ("downsample_factor",), "downsample_args")
    is_causal = bool(encoder.get("causal"))
    text = _text_config(dict(params or {}))
    config = {
        "model_type": "voxtral",
        "architectures": ["VoxtralRealtimeGeneration" if is_causal else _VOXTRAL],
        "text_config": text,
        "audio_config": {
            **{ours: encoder[given] for given, ours in _AUDIO_FIELDS.items()},
            "num_mel_bins": sound["num_mel_bins"],
            "window_size": sound["window_size"],
            "downsample_factor": downsampling["downsample_factor"],
            "max_source_positions": encoder.get("max_source_positions") or 1500,
        },
    }
    quantised = text.get("quantization_config")
    return {**config, "quantization_config": quantised} if quantised else config


def _check_there(
    given: Mapping[str, Any], names: tuple[str, ...], table: str = ""
) -> None:
    missing = next((name for name in names if name not in given), None)
    if missing is not None:
        raise PlannerError(
            f"params.json: {f'{table} has no' if table else 'there is no'} "
            f"`{missing}`. Download the file again, or give a model's config.json."
        )


def _text_config(params: dict[str, Any]) -> dict[str, Any]:
    longest = params.get("max_position_embeddings") or _DEFAULT_POSITIONS
    config = {
        **{_FIELDS.get(name, name): value for name, value in params.items()},
        "max_position_embeddings": longest,
        "max_seq_len": params.get("max_seq_len", longest),
        "model_type": params.get("model_type", "transformer"),
        "tie_word_embeddings": params.get("tied_embeddings", False),
        "dtype": params.get("dtype") or "bfloat16",
    }
    _set_windows(config)
    _set_quantization(config)
    _set_architecture(config)
    _set_yarn(config)
    return config


def _set_windows(config: dict[str, Any]) -> None:
    """Write a list of windows, which repeats, as the kind of each layer."""
    window = config.get("sliding_window")
    if isinstance(window, list) and window:
        kinds = window * (_num_layers(config) // len(window))
        config["layer_types"] = [
            "full_attention" if kind is None else "sliding_attention" for kind in kinds
        ]
        config["sliding_window"] = next(filter(None, window), None)
    elif isinstance(window, int) and window and not config.get("layer_types"):
        config["layer_types"] = ["sliding_attention"] * _num_layers(config)


def _num_layers(config: Mapping[str, Any]) -> int:
    given = config["num_hidden_layers"]
    if type(given) is not int or not 1 <= given <= _MOST_LAYERS:
        raise PlannerError(
            f"params.json: n_layers={given!r}: a whole number from 1 to "
            f"{_MOST_LAYERS:,} is needed."
        )
    return given


def _set_quantization(config: dict[str, Any]) -> None:
    given = config.pop("quantization", None)
    if not isinstance(given, Mapping) or not given:
        return
    if given.get("qformat_weight") == "fp8_e4m3":
        is_dynamic = given.get("qscheme_act") == "NO_SCALES"
        scheme = "dynamic" if is_dynamic else "static"
        given = {"quant_method": "fp8", "activation_scheme": scheme}
    elif str(given.get("quant_method", "")).lower().replace("_", "-") == (
        "compressed-tensors"
    ):
        given = {**given, "quant_method": "compressed-tensors"}
    config["quantization_config"] = dict(given)


def _set_architecture(config: dict[str, Any]) -> None:
    """Name the class: latent attention is always one of shared experts."""
    moe = config.get("moe")
    if config.get("qk_nope_head_dim") and not moe:
        moe = _one_expert(config)
    config["architectures"] = ["MistralForCausalLM"]
    if config["model_type"] == "mamba":
        config["architectures"] = ["Mamba2ForCausalLM"]
    elif isinstance(moe, Mapping) and moe.get("num_shared_experts"):
        config |= {ours: moe[name] for name, ours in _MOE_FIELDS.items() if name in moe}
        config |= {"model_type": "deepseek_v3", "norm_topk_prob": True}
        config["architectures"] = ["MistralLarge3ForCausalLM"]
        config["scoring_func"], config["topk_method"] = "softmax", None
    elif moe:
        config["architectures"] = ["MixtralForCausalLM"]


def _one_expert(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what vLLM says of experts where there are none: no layer has any."""
    return {
        **dict.fromkeys(_MOE_FIELDS, 1),
        "first_k_dense_replace": config["num_hidden_layers"],
        "expert_hidden_dim": config.get("intermediate_size"),
        "routed_scale": 1.0,
    }


def _set_yarn(config: dict[str, Any]) -> None:
    yarn = config.pop("yarn", None)
    if not isinstance(yarn, Mapping) or not yarn:
        return
    rope = {ours: yarn[name] for name, ours in _YARN_FIELDS.items() if name in yarn}
    if config.get("rope_theta"):
        rope["rope_theta"] = config.pop("rope_theta")
    config["rope_parameters"] = {"rope_type": "yarn", "mscale_all_dim": 1, **rope}


def nested(of: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    """Return a nested mapping, empty where there is none."""
    value = (of or {}).get(name)
    return value if isinstance(value, Mapping) else {}
