"""A running server, asked over HTTP: real answers of a server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from planner import PlannerError
from planner.reading.logs.running import is_address, reading_of_server, samples_of
from planner.reading.reading import Kind

TEXTS = Path(__file__).parents[2] / "data/texts"


@dataclass
class Answers:
    """The pages of a server, and which of them were asked for."""

    pages: dict[str, tuple[int, str]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    address: str = ""

    def vllm(self, metrics: str, version: str, **card: Any) -> None:
        """Answer as vLLM does."""
        shown = {"id": "served", "object": "model", "owned_by": "vllm", **card}
        adapter = {**shown, "id": "adapter", "root": "/adapters/a", "parent": "served"}
        self.pages |= {
            "/version": (200, json.dumps({"version": version})),
            "/v1/models": (200, json.dumps({"data": [adapter, shown]})),
            "/metrics": (200, (TEXTS / metrics).read_text(encoding="utf-8")),
        }


@pytest.fixture
def server() -> Iterator[Answers]:
    """A server on this machine that answers what a test sets."""
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.asked.append(("GET", self.path))
            status, text = answers.pages.get(self.path, (404, "{}"))
            self.send_response(status)
            if status // 100 == 3:
                self.send_header("Location", text)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        answers.address = f"127.0.0.1:{http.server_address[1]}"
        yield answers
        http.shutdown()


@pytest.mark.parametrize(
    "text",
    [
        "localhost:8000",
        "http://localhost:8000/v1",
        "https://models.example.org/vllm",
        "10.0.0.7:8080",
        "[::1]:8000/metrics",
        " vllm-0.svc.cluster.local:8000\n",
    ],
)
def test_an_address(text: str) -> None:
    """One word: a scheme and a host, or a host and its port."""
    assert is_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "Qwen/Qwen3-8B",
        "vllm/vllm-openai:v0.33.0",
        "vllm serve org/m --host 0.0.0.0:8000",
        "http://a:8000 http://b:8000",
        "C:\\models\\m",
        "qwen3:8b",
        "12:30",
        "",
    ],
)
def test_no_address(text: str) -> None:
    """A model, an image, a command or a time of day."""
    assert not is_address(text)


def test_what_0_10_tells(server: Answers) -> None:
    """Its gauge of usage has another name: gpu_cache_usage_perc."""
    server.vllm("metrics-0.10.txt", "0.10.0", root="Qwen/Qwen3-8B", max_model_len=16384)

    read = reading_of_server(f"http://{server.address}/v1/")

    assert read.kind is Kind.SERVER
    assert (read.model, read.vllm_version) == ("Qwen/Qwen3-8B", "0.10.0")
    assert read.engine_args["max_model_len"] == 16384
    assert read.engine_args["gpu_memory_utilization"] == 0.9
    assert "num_gpu_blocks_override" not in read.engine_args
    assert read.log is not None
    assert read.log.started is True
    figures = read.log.figures
    assert figures["num_gpu_blocks"] == 2331
    assert figures["kv_cache_usage"] == 0.9731
    assert figures["num_preemptions"] == 418
    assert figures["num_requests_finished"] == 2800 + 200
    assert figures["mean_prompt_tokens"] == 6_000_000 / 3000
    assert figures["mean_generation_tokens"] == 1_500_000 / 3000
    assert any("tensor_parallel_size" in sentence for sentence in read.open)
    assert any("gpu=" in sentence for sentence in read.open)


def test_what_0_33_tells_of_two_engines(server: Answers) -> None:
    """Counts add up over the engines; the fullest cache counts."""
    server.vllm("metrics-0.33.txt", "0.33.0", root="Qwen/Qwen3-8B", max_model_len=32768)

    read = reading_of_server(server.address)

    assert read.engine_args["data_parallel_size"] == 2
    assert read.engine_args["kv_cache_dtype"] == "fp8"
    assert "block_size" not in read.engine_args, "nobody gave it"
    figures = read.log.figures if read.log else {}
    assert figures["num_requests_running"] == 3 + 2
    assert figures["kv_cache_usage"] == 0.034
    assert figures["kv_tokens"] == 796_912
    assert figures["max_concurrency"] == 24.32
    assert figures["mean_prompt_tokens"] == (40_000 + 40_000) / (50 + 50)


def test_a_development_server_tells_all(server: Answers) -> None:
    """/server_info, as VLLM_SERVER_DEV_MODE=1 opens it."""
    server.vllm("metrics-0.33.txt", "0.33.0", root="/models/Qwen3-8B")
    info = {
        "vllm_config": {
            "parallel_config": {"tensor_parallel_size": 4, "data_parallel_size": 2},
            "scheduler_config": {"max_num_seqs": 64},
            "model_config": {"dtype": "torch.bfloat16", "max_model_len": 8192},
        },
        "system_env": {
            "nvidia_gpu_models": "GPU 0: NVIDIA H100 80GB HBM3\nGPU 1: NVIDIA H100 PCIe"
        },
    }
    server.pages["/server_info?config_format=json"] = (200, json.dumps(info))

    read = reading_of_server(server.address)

    assert read.model == "Qwen/Qwen3-8B", "the catalogue's model of that name"
    assert any("/models/Qwen3-8B" in note for note in read.notes)
    assert read.engine_args["tensor_parallel_size"] == 4
    assert read.engine_args["dtype"] == "bfloat16"
    assert getattr(read.gpu, "name", read.gpu) == "H100"
    assert read.gpus == 2


def test_nothing_is_changed_there(server: Answers) -> None:
    """Only GET, and only these pages."""
    server.vllm("metrics-0.33.txt", "0.33.0")

    reading_of_server(server.address)

    assert server.asked == [
        ("GET", "/version"),
        ("GET", "/v1/models"),
        ("GET", "/metrics"),
        ("GET", "/server_info?config_format=json"),
    ]


def test_a_key_is_said(server: Answers) -> None:
    """vLLM asks for its key on /v1 only; the rest is read."""
    server.vllm("metrics-0.33.txt", "0.33.0")
    server.pages["/v1/models"] = (401, '{"error": "Unauthorized"}')

    read = reading_of_server(server.address)

    assert read.model is None
    assert any("/v1/models asks for a key" in note for note in read.notes)
    assert any("model=" in sentence for sentence in read.open)


def test_no_redirect_is_followed(server: Answers) -> None:
    """Only the server whose address was typed is asked."""
    server.pages["/version"] = (302, "http://169.254.169.254/latest")

    with pytest.raises(PlannerError, match=r"169\.254\.169\.254/latest, which was not"):
        reading_of_server(server.address)


def _is_ollama(server: Answers) -> None:
    server.pages["/v1/models"] = (200, '{"data": [{"id": "m", "owned_by": "library"}]}')


def _is_binary(server: Answers) -> None:
    server.pages["/version"] = (200, "\x00\x01[")
    server.pages["/metrics"] = (200, "go_goroutines 8\n")


@pytest.mark.parametrize("answer", [_is_ollama, _is_binary])
def test_another_server_is_refused(
    server: Answers, answer: Callable[[Answers], None]
) -> None:
    """A server that is not vLLM's tells nothing that could be planned."""
    answer(server)

    with pytest.raises(PlannerError, match="answers, but not as vLLM"):
        reading_of_server(server.address)


def test_nobody_answers() -> None:
    """A port where nothing listens."""
    with pytest.raises(PlannerError, match="does not answer"):
        reading_of_server("127.0.0.1:1")


def test_a_published_app_asks_nobody(
    server: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers must not make it open connections."""
    monkeypatch.setenv("PLANNER_PUBLISHED", "1")

    with pytest.raises(PlannerError, match="This planner asks no servers"):
        reading_of_server(server.address)

    assert server.asked == []


def test_labels_may_hold_anything() -> None:
    """Quotes, braces and commas are part of a label."""
    (sample,) = samples_of('vllm:x_total{a="1,\\"}",b="{c=\\"d\\"}"} 3 1700000000000')

    assert sample.labels == {"a": '1,\\"}', "b": '{c=\\"d\\"}'}
    assert sample.value == 3
