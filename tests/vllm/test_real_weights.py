"""Real weights and a tokenizer, from a folder and from a Hub on this machine."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

import planner
from planner.confirming.run import confirm
from tests.hub_server import HubServer, Repo, close_session
from tests.vllm.conftest import TINY

_FLOAT_BYTES = 4


def shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the tensors of a dense Llama, as checkpoints name them."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head = config.get("head_dim", hidden // heads)
    vocabulary = (config["vocab_size"], hidden)
    yield "model.embed_tokens.weight", vocabulary
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        yield f"{layer}.self_attn.q_proj.weight", (heads * head, hidden)
        yield f"{layer}.self_attn.k_proj.weight", (kv_heads * head, hidden)
        yield f"{layer}.self_attn.v_proj.weight", (kv_heads * head, hidden)
        yield f"{layer}.self_attn.o_proj.weight", (hidden, heads * head)
        yield f"{layer}.mlp.gate_proj.weight", (inner, hidden)
        yield f"{layer}.mlp.up_proj.weight", (inner, hidden)
        yield f"{layer}.mlp.down_proj.weight", (hidden, inner)
        yield f"{layer}.input_layernorm.weight", (hidden,)
        yield f"{layer}.post_attention_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", vocabulary


def write_checkpoint(folder: Path) -> None:
    """Write config.json, model.safetensors full of ones, and a tokenizer of words."""
    config = json.loads((TINY / "dense" / "config.json").read_text())
    config["tie_word_embeddings"] = False
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes(config):
        begin, end = end, end + _FLOAT_BYTES * prod(shape)
        header[name] = {
            "dtype": "F32",
            "shape": list(shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    one = struct.pack("<f", 1.0)
    data = struct.pack("<Q", len(text)) + text + one * (end // _FLOAT_BYTES)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(data)
    words = {f"word{number}": number for number in range(config["vocab_size"])}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "word0"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"})
    )


@pytest.mark.parametrize("entrypoint", ["serve", "llm"])
def test_a_folder_with_weights_is_served_in_words(
    release, tmp_path, entrypoint
) -> None:
    """The answer is text, for the folder has a tokenizer."""
    write_checkpoint(tmp_path)
    plan = planner.plan(
        tmp_path,
        gpu="CPU",
        vllm_version=release,
        entrypoint=entrypoint,
        dtype="float32",
        gpu_memory_utilization=0.2,
        enforce_eager=True,
    )

    confirmation = confirm(plan, weights="real", is_stored=False)

    measured = confirmation.measurement
    assert measured.is_started, confirmation.log_text[-3000:]
    assert not measured.is_dummy
    assert len(measured.generated_tokens) == 8
    assert measured.generated_text.split()
    assert set(measured.generated_text.split()) == {
        f"word{token}" for token in measured.generated_tokens
    }
    assert confirmation.given is not None
    assert confirmation.given.is_exact


def test_weights_come_from_the_hub(release, tmp_path, monkeypatch) -> None:
    """The planner reads headers; vLLM fetches the file itself, from the same Hub."""
    write_checkpoint(tmp_path)
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    close_session()
    with HubServer() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        hub.repos["someone/words"] = Repo(files=files)
        plan = planner.plan(
            "someone/words",
            gpu="CPU",
            vllm_version=release,
            dtype="float32",
            gpu_memory_utilization=0.2,
            enforce_eager=True,
        )
        served_to_plan = hub.bytes_served()

        confirmation = confirm(plan, weights="real", is_stored=False)
    close_session()

    weights = len(files["model.safetensors"])
    assert served_to_plan < weights
    assert hub.bytes_served() >= weights
    assert confirmation.measurement.is_started, confirmation.log_text[-3000:]
    assert confirmation.measurement.generated_text.split()
