"""A published process, and a Hub for it to ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from planner.models.sources import allowance, hub_bounds, hub_published
from planner.surroundings import PUBLISHED, RUNTIME
from tests.hub_server import Hub, HubServer, Repo, safetensors_file

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}
NAME = "nobody/tiny"


def repo(**files: bytes) -> Repo:
    """A small model; further files by name."""
    return Repo(files={"config.json": json.dumps(CONFIG).encode(), **files})


def sharded(num_shards: int) -> Repo:
    """A model whose weights lie in files of one tensor each."""
    weights = {
        f"model-{n:05d}-of-{num_shards:05d}.safetensors": safetensors_file(
            {f"layers.{n}.weight": ("BF16", [16, 16])}, 0
        )
        for n in range(1, num_shards + 1)
    }
    return repo(**{"model.safetensors.index.json": b"{}"}, **weights)


@contextmanager
def published_hub(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Hub]:
    """Be a published process for a while, with a Hub that is up."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setenv(PUBLISHED, "1")
    monkeypatch.setenv(RUNTIME, str(folder))
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", allowance.PER_MINUTE, hub_bounds.TOKEN):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(
        "huggingface_hub.constants.HF_TOKEN_PATH", str(folder / "token")
    )
    if not hub_bounds.can_bound():
        pytest.skip("before 1.0, a published app makes no requests to the Hub")
    _forget(huggingface_hub)
    with HubServer() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running
    _forget(huggingface_hub)


def _forget(huggingface_hub) -> None:
    from huggingface_hub.utils._http import default_client_factory

    allowance.forget()
    hub_published._from_hub.cache_clear()
    hub_bounds._bound.cache_clear()
    huggingface_hub.set_client_factory(default_client_factory)
