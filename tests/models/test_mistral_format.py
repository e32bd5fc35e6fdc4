"""Mistral's own format: params.json alone, as vLLM makes a config of it."""

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.errors import ModelNotFound, PlannerError, UnknownArchitecture
from planner.models.sources.mistral_format import mistral_config

PARAMS: dict[str, Any] = {
    "dim": 64,
    "n_layers": 4,
    "head_dim": 16,
    "hidden_dim": 128,
    "n_heads": 4,
    "n_kv_heads": 2,
    "rope_theta": 10000.0,
    "norm_eps": 1e-05,
    "vocab_size": 640,
}
VISION = {
    "hidden_size": 32,
    "num_channels": 3,
    "image_size": 32,
    "patch_size": 4,
    "rope_theta": 10000.0,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_token_id": 10,
}
LATENT = {"q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 8}


def config_of(**changes: object) -> dict[str, Any]:
    """The config of the example with other fields."""
    config = mistral_config({**PARAMS, **changes})
    assert config is not None
    return config


def folder_of(path: Path, **changes: object) -> Path:
    """A checkpoint in Mistral's own format alone."""
    (path / "params.json").write_text(
        json.dumps({**PARAMS, **changes}), encoding="utf-8"
    )
    return path


def test_a_text_model_is_a_mistral_of_128000_positions(tmp_path: Path) -> None:
    """A layer: qkv 64 x 128, output 64 x 64, MLP 3 x 64 x 128, two norms, four scales.

    In addition 640 x 64 words twice, one norm and a rotary table of 128,000 x 16.
    """
    layer = 2 * (64 * 128 + 64 * 64 + 3 * 64 * 128 + 2 * 64) + 4 * 4
    rest = 2 * (2 * 640 * 64 + 64 + 128_000 * 16)

    plan = planner.plan(folder_of(tmp_path), gpu="H100")

    assert plan.ranks[0].weights_bytes == 4 * layer + rest
    assert plan.to_dict()["resolved"]["max_model_len"] == 128_000


def test_a_config_json_beside_it_is_read_first(tmp_path: Path) -> None:
    """vLLM reads params.json where the weights' names say so; both say the same."""
    folder_of(tmp_path)
    config = {**config_of(), "model_type": "mistral", "max_position_embeddings": 512}
    del config["max_seq_len"]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    plan = planner.plan(tmp_path, gpu="H100")

    assert plan.to_dict()["resolved"]["max_model_len"] == 512


def test_windows_repeat_over_the_layers() -> None:
    """Every second of four layers has one of 32 tokens."""
    config = config_of(sliding_window=[None, 32])

    assert config["sliding_window"] == 32
    assert config["layer_types"] == ["full_attention", "sliding_attention"] * 2


@pytest.mark.parametrize(
    ("scheme", "activations"), [("TENSOR", "static"), ("NO_SCALES", "dynamic")]
)
def test_fp8_is_transformers_fp8(scheme: str, activations: str) -> None:
    """Scales of activations are in the file unless it says otherwise."""
    given = {"qformat_weight": "fp8_e4m3", "qscheme_act": scheme}
    config = config_of(quantization=given, vision_encoder=VISION)
    expected = {"quant_method": "fp8", "activation_scheme": activations}

    assert config["quantization_config"] == expected
    assert config["text_config"]["quantization_config"] == expected


def test_images_make_it_pixtral(tmp_path: Path) -> None:
    """A convolution of 32 x 3 x 4 x 4, a norm, and one layer without biases.

    The adapter: 32 to 64, and 64 to 64, with biases. An image is 8 x 8 tokens.
    """
    layer = 4 * 32 * 32 + 3 * 32 * 64 + 2 * 32
    tower = 32 * 48 + 32 + layer + (32 + 64 + 2) * 64
    text = planner.plan(folder_of(tmp_path), gpu="H100")

    plan = planner.plan(folder_of(tmp_path, vision_encoder=VISION), gpu="H100")

    assert plan.ranks[0].weights_bytes - text.ranks[0].weights_bytes == 2 * tower
    assert plan.model.towers[0].items[0].tokens == 64


def test_latent_attention_makes_it_mistral_large_3() -> None:
    """Without experts vLLM says one shared expert, and that no layer has any."""
    config = config_of(**LATENT)

    assert config["architectures"] == ["MistralLarge3ForCausalLM"]
    assert config["first_k_dense_replace"] == config["num_hidden_layers"] == 4


def test_mixtrals_own_format_is_not_served(tmp_path: Path) -> None:
    """vLLM stops: its class looks for num_local_experts, which stays within "moe"."""
    folder = folder_of(tmp_path, moe={"num_experts": 8, "num_experts_per_tok": 2})

    with pytest.raises(UnknownArchitecture, match="num_local_experts"):
        planner.plan(folder, gpu="H100")


def test_other_files_of_that_name_are_no_models(tmp_path: Path) -> None:
    """Without dim and n_layers there is no model."""
    (tmp_path / "params.json").write_text('{"top_p": 0.9}', encoding="utf-8")

    with pytest.raises(ModelNotFound, match=r"no config\.json"):
        planner.plan(tmp_path, gpu="H100")


@pytest.mark.parametrize("layers", [None, "4", 1.5, 0, 10**12])
@pytest.mark.parametrize("window", [[None, 32], 32])
def test_windows_need_a_number_of_layers(layers: object, window: object) -> None:
    """Each layer's kind is written out."""
    with pytest.raises(PlannerError, match="n_layers"):
        config_of(n_layers=layers, sliding_window=window)


_ENCODER = {
    "audio_encoding_args": {"num_mel_bins": 128, "window_size": 400},
    "dim": 64,
    "hidden_dim": 128,
    "n_heads": 2,
    "n_layers": 1,
}


@pytest.mark.parametrize("left_out", ["dim", "n_heads", "num_mel_bins", "window_size"])
def test_an_incomplete_encoder_of_audio_is_named(tmp_path: Path, left_out: str) -> None:
    """By the field that is missing, in either of its tables."""
    sound = {**_ENCODER["audio_encoding_args"]}
    encoder = {**_ENCODER, "audio_encoding_args": sound}
    (sound if left_out in sound else encoder).pop(left_out)
    args = {"encoder_args": encoder, "downsample_args": {"downsample_factor": 4}}
    folder = folder_of(tmp_path, multimodal={"whisper_model_args": args})

    with pytest.raises(PlannerError, match=rf"params\.json.*`{left_out}`"):
        planner.plan(folder, gpu="H100")


def test_an_audio_model_without_its_factor_is_named(tmp_path: Path) -> None:
    """How many of the encoder's rows become a token."""
    args = {"encoder_args": _ENCODER, "downsample_args": {"x": 4}}
    folder = folder_of(tmp_path, multimodal={"whisper_model_args": args})

    with pytest.raises(PlannerError, match="downsample_args has no"):
        planner.plan(folder, gpu="H100")
