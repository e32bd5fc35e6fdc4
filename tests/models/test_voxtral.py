"""Voxtral: params.json in place of config.json, and what the tower holds."""

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.errors import UnknownArchitecture
from planner.memory.media.encoder import encoder_budget_tokens, profiled_items
from planner.models.sources.mistral_format import voxtral_config

SOUND = {
    "sampling_rate": 16000,
    "frame_rate": 12.5,
    "num_mel_bins": 128,
    "hop_length": 160,
    "window_size": 400,
}
ENCODER = {
    "audio_encoding_args": SOUND,
    "dim": 1280,
    "n_layers": 32,
    "head_dim": 64,
    "hidden_dim": 5120,
    "n_heads": 20,
    "vocab_size": 51866,
    "max_source_positions": 1500,
}
PARAMS: dict[str, Any] = {
    "dim": 3072,
    "n_layers": 30,
    "head_dim": 128,
    "hidden_dim": 8192,
    "n_heads": 32,
    "n_kv_heads": 8,
    "rope_theta": 100000000.0,
    "norm_eps": 1e-05,
    "vocab_size": 131072,
    "max_position_embeddings": 32768,
    "multimodal": {
        "whisper_model_args": {
            "encoder_args": ENCODER,
            "downsample_args": {"downsample_factor": 4},
        }
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint in Mistral's own format alone."""
    (tmp_path / "params.json").write_text(json.dumps(PARAMS), encoding="utf-8")
    return tmp_path


def test_the_tower_is_whispers_and_an_adapter(folder: Path) -> None:
    """32 layers of 1,280 and 5,120, 1,500 positions and the mel filters in 32 bits.

    The adapter takes four rows of 1,280 as one to 3,072, and that to 3,072 again.
    """
    size, mlp = 1280, 5120
    layer = 4 * (size * size + size) + 2 * size * mlp + mlp + size + 4 * size
    convolutions = 3 * 128 * size + size + 3 * size * size + size
    adapter = 4 * size * 3072 + 3072 * 3072
    in_16_bits = 32 * layer + convolutions + 2 * size + adapter
    in_32_bits = 1500 * size + 201 * 128
    plan = planner.plan(folder, gpu="H100")
    text = planner.plan(folder, gpu="H100", limit_mm_per_prompt={"audio": 0})
    held = plan.ranks[0].weights_bytes - text.ranks[0].weights_bytes
    assert held == 2 * in_16_bits + 4 * in_32_bits


def test_a_sound_is_as_long_as_a_request(folder: Path) -> None:
    """Of 8,192 tokens, which fill the budget of a step."""
    run = planner.plan(folder, gpu="H100", max_model_len=8192).limiting_rank.profile_run
    assert run is not None
    batch = profiled_items(run)
    assert batch is not None
    assert encoder_budget_tokens(run) == batch.tokens_per_item == 8192
    assert (batch.items, batch.patches) == (1, 4 * 8192)


def test_stages_are_not_modelled(folder: Path) -> None:
    """vLLM cuts the encoder by stages that do not hold it."""
    with pytest.raises(UnknownArchitecture, match="pipeline_parallel_size"):
        planner.plan(folder, gpu="H100", pipeline_parallel_size=2)


def test_the_hubs_config_alone_does_not_do(tmp_path: Path) -> None:
    """vLLM fails at audio_config.downsample_factor, which only params.json has."""
    config = voxtral_config(PARAMS)
    assert config is not None
    del config["audio_config"]["downsample_factor"]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UnknownArchitecture, match=r"params\.json"):
        planner.plan(tmp_path, gpu="H100")
