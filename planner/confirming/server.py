"""A running vLLM server, asked over HTTP on this machine."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Mapping
from typing import Any

from planner.errors import PlannerError

HOST = "127.0.0.1"
MODEL = "planned"
"""The name under which the server serves the model."""

_QUICK_SECONDS = 5.0
_ANSWER_SECONDS = 600.0
_OK = 200
_SAMPLE = re.compile(r"^(vllm:\w+?)(?:_total)?(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def free_port(asked: int | None) -> int:
    """Return a port that a server on this machine can listen on.

    Raises:
        PlannerError: where the asked one is taken.
    """
    with socket.socket() as probe:
        # As servers do: a port whose last connections are fading away is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, asked or 0))
        except (OSError, OverflowError) as error:
            raise PlannerError(
                f"Port {asked} cannot be used ({error}). Leave the port out for a free "
                "one, or end the program that uses it."
            ) from error
        port: int = probe.getsockname()[1]
        return port


class Server:
    """vLLM's OpenAI-compatible server at a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    def is_ready(self) -> bool:
        """Whether it answers that it is up."""
        try:
            return self._ask("GET", "/health", None, _QUICK_SECONDS)[0] == _OK
        except (OSError, http.client.HTTPException):
            return False

    def call_workers(self, method: str) -> list[dict[str, Any]]:
        """Return what a method of each worker answers; none where the release cannot.

        Source: vLLM 0.33.0 `entrypoints/serve/dev/rpc/api_router.py`; from 0.11, with
        VLLM_SERVER_DEV_MODE=1.
        """
        status, body = self._ask(
            "POST", "/collective_rpc", {"method": method}, _ANSWER_SECONDS
        )
        results = json.loads(body).get("results") if status == _OK else None
        return [one for one in results or [] if isinstance(one, dict)]

    def metrics(self) -> dict[str, float]:
        """Return the sum over engines of each metric, without `_total`."""
        sums: dict[str, float] = {}
        for name, _labels, value in self._samples():
            sums[name] = sums.get(name, 0.0) + value
        return sums

    def cache_config(self) -> dict[str, str]:
        """Return the labels of the metric that tells the cache's configuration."""
        for name, labels, _value in self._samples():
            if name == "vllm:cache_config_info":
                return labels
        return {}

    def complete(self, prompt: list[int], max_tokens: int, **more: object) -> Any:  # noqa: ANN401
        """Return the answer to a prompt of token ids, as JSON.

        Raises:
            PlannerError: with the server's words, where it refuses.
        """
        asked = {
            "model": MODEL,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "return_token_ids": True,
            **more,
        }
        status, body = self._ask("POST", "/v1/completions", asked, _ANSWER_SECONDS)
        if status != _OK:
            raise PlannerError(f"vLLM answered {status}: {body[:300]}")
        return json.loads(body)

    def _samples(self) -> list[tuple[str, dict[str, str], float]]:
        text = self._ask("GET", "/metrics", None, _QUICK_SECONDS)[1]
        return [
            (match[1], dict(_LABEL.findall(match[2] or "")), float(match[3]))
            for line in text.splitlines()
            if (match := _SAMPLE.match(line)) is not None
        ]

    def _ask(
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
