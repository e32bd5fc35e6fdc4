"""A running vLLM server on this machine, queried over HTTP, and the load probe.

The load probe sends requests of the planned length all at once. It shows whether as
many of them run together as planned, before the KV cache is full and vLLM queues or
preempts requests.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from planner.confirming.beside_vllm.offline import METRICS
from planner.confirming.figures import load_figures
from planner.confirming.measurement import LoadFigures
from planner.errors import PlannerError
from planner.planning.result import Plan

HOST = "127.0.0.1"
MODEL = "planned"
"""The name under which the server serves the model."""

_QUICK_SECONDS = 5.0
_ANSWER_SECONDS = 600.0
_OK = 200
_STEP_SECONDS = 0.05
_MIN_OUTPUT_TOKENS = 16
_SPARE_FACTOR = 2
# The cache is at its fullest for about a fifth of a load of short requests.
_MIN_READINGS = 30
_MAX_ROUNDS = 8
_SAMPLE = re.compile(r"^(vllm:\w+?)(?:_total)?(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def free_port(port: int | None) -> int:
    """Return a port that a server on this machine can listen on.

    Raises:
        PlannerError: if the given one is taken.
    """
    with socket.socket() as probe:
        # As servers do: a port with closed connections in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port or 0))
        except (OSError, OverflowError) as error:
            raise PlannerError(
                f"Port {port} cannot be used ({error}). Leave the port out for a free "
                "one, or end the program that uses it."
            ) from error
        free: int = probe.getsockname()[1]
        return free


class Server:
    """vLLM's OpenAI-compatible server at a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    def is_ready(self) -> bool:
        """Return whether it answers that it is ready."""
        try:
            return self._request("GET", "/health", None, _QUICK_SECONDS)[0] == _OK
        except (OSError, http.client.HTTPException):
            return False

    def call_workers(self, method: str) -> list[dict[str, Any]]:
        """Return each worker's result of a method; none if the release cannot call it.

        Source: vLLM 0.33.0 `entrypoints/serve/dev/rpc/api_router.py`; from 0.11, with
        VLLM_SERVER_DEV_MODE=1.
        """
        status, body = self._request(
            "POST", "/collective_rpc", {"method": method}, _ANSWER_SECONDS
        )
        results = json.loads(body).get("results") if status == _OK else None
        return [result for result in results or [] if isinstance(result, dict)]

    def metrics(self) -> dict[str, float]:
        """Return each metric, summed over engines, by its name without `_total`."""
        sums: dict[str, float] = {}
        for name, _labels, value in self._samples():
            sums[name] = sums.get(name, 0.0) + value
        return sums

    def cache_config(self) -> dict[str, str]:
        """Return the labels of the metric with the cache's configuration."""
        for name, labels, _value in self._samples():
            if name == "vllm:cache_config_info":
                return labels
        return {}

    def complete(self, prompt: list[int], max_tokens: int, **more: object) -> Any:  # noqa: ANN401
        """Return the answer to a prompt of token ids, as JSON.

        Raises:
            PlannerError: with the server's message, if it refuses.
        """
        request = {
            "model": MODEL,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "return_token_ids": True,
            **more,
        }
        status, body = self._request(
            "POST", "/v1/completions", request, _ANSWER_SECONDS
        )
        if status != _OK:
            raise PlannerError(f"vLLM answered {status}: {body[:300]}")
        return json.loads(body)

    def _samples(self) -> list[tuple[str, dict[str, str], float]]:
        text = self._request("GET", "/metrics", None, _QUICK_SECONDS)[1]
        return [
            (match[1], dict(_LABEL.findall(match[2] or "")), float(match[3]))
            for line in text.splitlines()
            if (match := _SAMPLE.match(line)) is not None
        ]

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=seconds)
        try:
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body),
                headers={"Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        finally:
            connection.close()


def sent_load(plan: Plan, num_requests: int) -> dict[str, int]:
    """Return the load of `num_requests`: the tokens of each prompt and answer.

    Prompt and answer together are `max_model_len`. The answer is long enough that the
    first request still runs when the last prompt has been processed: only then do all
    requests run at once.

    Raises:
        PlannerError: for a plan that has no requests to send.
    """
    if plan.resolved is None or plan.model is None or plan.model.is_pooling:
        raise PlannerError(
            "A load probe needs a model that generates text and a plan that starts."
        )
    length = plan.resolved.max_model_len
    batch = plan.resolved.max_num_batched_tokens
    steps_to_read_all = -(-num_requests * length // batch)
    output = min(
        length // 2, max(_MIN_OUTPUT_TOKENS, _SPARE_FACTOR * steps_to_read_all)
    )
    return {
        "num_requests": num_requests,
        "prompt_tokens": max(1, length - output),
        "output_tokens": max(1, output),
        "vocab_size": plan.model.vocab_size,
    }


def send_load(
    server: Server, load: Mapping[str, int], is_stopped: Callable[[], bool]
) -> LoadFigures:
    """Send the requests to a server at once and read its metrics until they end.

    If they end before the metrics were read often enough, as on a busy machine, other
    requests are sent, for a few rounds. The number of finished requests is the lowest
    of all rounds, the seconds are those of the last.
    """
    before = server.metrics().get("vllm:num_preemptions", 0.0)
    rng = random.Random(0)
    seen: dict[str, float] = {"finished": load["num_requests"]}
    with _Watcher(server) as watcher:
        for _round in range(_MAX_ROUNDS):
            begin = time.monotonic()
            finished = _send_all(server, _prompts(load, rng), load, is_stopped)
            seen["seconds"] = time.monotonic() - begin
            seen["finished"] = min(seen["finished"], finished)
            if watcher.num_readings >= _MIN_READINGS or is_stopped():
                break
    seen["readings"] = watcher.num_readings
    return load_figures(load, {**watcher.peaks, **seen}, preempted_before=before)


def _prompts(load: Mapping[str, int], rng: random.Random) -> list[list[int]]:
    # Different prefixes: the blocks of a common prefix would be shared.
    return [
        [rng.randrange(load["vocab_size"]) for _ in range(load["prompt_tokens"])]
        for _ in range(load["num_requests"])
    ]


def _send_all(
    server: Server,
    prompts: list[list[int]],
    load: Mapping[str, int],
    is_stopped: Callable[[], bool],
) -> int:
    """Send the prompts at once and return how many were answered."""

    def send(prompt: list[int]) -> bool:
        if is_stopped():
            return False
        try:
            server.complete(
                prompt, load["output_tokens"], ignore_eos=True, detokenize=False
            )
        except (OSError, PlannerError):
            return False
        return True

    with ThreadPoolExecutor(max_workers=len(prompts)) as pool:
        return sum(pool.map(send, prompts))


class _Watcher:
    """Reads a server's metrics repeatedly, in a thread, and keeps the peaks."""

    def __init__(self, server: Server) -> None:
        self.peaks: dict[str, float] = dict.fromkeys(METRICS.values(), 0.0)
        self.num_readings = 0
        """How often the metrics were read while requests ran."""
        self._server = server
        self._done = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="load probe", daemon=True
        )

    def __enter__(self) -> _Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            is_last = self._done.is_set()
            # A late answer is one reading less; the others continue.
            with suppress(OSError, http.client.HTTPException):
                self._read()
            if is_last:
                return
            self._done.wait(_STEP_SECONDS)

    def _read(self) -> None:
        metrics = self._server.metrics()
        for metric, name in METRICS.items():
            self.peaks[name] = max(self.peaks[name], metrics.get(metric, 0.0))
        self.num_readings += metrics.get("vllm:num_requests_running", 0.0) > 0
