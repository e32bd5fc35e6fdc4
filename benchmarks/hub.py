"""Measure what reading a model from the Hub and searching it take: requests, seconds.

    python benchmarks/hub.py

Against the tests' server on this machine, which waits 100 ms before each answer, as the
Hub does over an ocean. A round is a request that waited for the one before it. Exit
status 1 where one takes longer than its limit.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.hub_server import Hub, HubServer, Repo, safetensors_file  # noqa: E402

LATENCY_SECONDS = 0.1
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
}
_SIDE = (
    "hf_quant_config.json",
    "params.json",
    "preprocessor_config.json",
    "processor_config.json",
    "modules.json",
)
_LIMITS = {
    "one file of weights": 0.8,
    "8 shards and 5 side files": 0.9,
    "64 shards on a mirror": 2.0,
    "the second time": 0.3,
    "a search, with releases": 0.4,
    "the same search again": 0.05,
}
"""Seconds: about twice the rounds at 100 ms, as the machine may be busy."""


def fill(hub: Hub) -> None:
    """Put models on the Hub."""
    config = json.dumps(_CONFIG).encode()
    weights = safetensors_file({"w": ("BF16", [16, 16])}, 0)
    single = {"config.json": config, "model.safetensors": weights}
    side = {name: json.dumps({"of": name}).encode() for name in _SIDE}
    hub.repos["a/single"] = Repo(files=single)
    hub.repos["a/whole"] = Repo(files={"config.json": config, **side, **_shards(8)})
    hub.repos["a/large"] = Repo(files={"config.json": config, **_shards(64)})
    for number in range(4):
        hub.repos[f"a/tiny-{number}"] = Repo(files={}, downloads=9 - number)


def _shards(count: int) -> dict[str, bytes]:
    shards = {
        f"model-{n:05d}-of-{count:05d}.safetensors": safetensors_file(
            {f"layers.{n}.w": ("BF16", [16, 16])}, 0
        )
        for n in range(1, count + 1)
    }
    return {"model.safetensors.index.json": b"{}", **shards}


def measured(hub: Hub, job: Callable[[], object]) -> tuple[int, int, float]:
    """Return requests, rounds and seconds of a job."""
    hub.asked.clear()
    began = time.perf_counter()
    job()
    return len(hub.asked), hub.rounds(), time.perf_counter() - began


def main() -> int:
    """Print a row for each; return whether all were within the limits."""
    from planner.models.sources.hub_search import search  # noqa: PLC0415 - set up first
    from planner.models.sources.huggingface import fetch  # noqa: PLC0415 - set up first

    with HubServer() as hub:
        os.environ["HF_ENDPOINT"] = hub.url
        fill(hub)
        fetch("a/single")  # the library's import is not counted
        hub.repos["a/other"] = hub.repos["a/single"]
        hub.delay_seconds = LATENCY_SECONDS

        def on_mirror() -> None:
            hub.has_header_route = False
            fetch("a/large")

        jobs: tuple[Callable[[], object], ...] = (
            lambda: fetch("a/other"),
            lambda: fetch("a/whole"),
            on_mirror,
            lambda: fetch("a/whole"),
            lambda: search("tiny"),
            lambda: search("tiny"),
        )
        rows = [measured(hub, job) for job in jobs]
    is_slow = False
    for (name, limit), (requests, rounds, seconds) in zip(
        _LIMITS.items(), rows, strict=True
    ):
        is_slow |= seconds > limit
        print(
            f"{name:27} {requests:3} requests {rounds:2} rounds {seconds:6.2f} s"
            f" (limit {limit})"
        )
    return int(is_slow)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"HF_HOME": home, "NO_PROXY": "127.0.0.1"}
        os.environ |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
        for token in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "PLANNER_PUBLISHED"):
            os.environ.pop(token, None)
        sys.exit(main())
