"""A client of `planner mcp` that sends messages and reads answers, a line each."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from planner.app.mcp.server import answer_all
from tests.conftest import ROOT


def request(method: str, number: int = 1, **params: Any) -> dict[str, Any]:
    """A request as a client writes it."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def said(*messages: object) -> list[Any]:
    """What the server answers to messages, in this process; text is sent as it is."""
    lines = (
        one if isinstance(one, bytes) else json.dumps(one).encode() for one in messages
    )
    out = io.StringIO()
    answer_all(io.BytesIO(b"".join(line + b"\n" for line in lines)), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def called(tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of a tool."""
    (answer,) = said(request("tools/call", name=tool, arguments=arguments))
    result: dict[str, Any] = answer["result"]
    return result


class Client:
    """A program that asks a server which it has started."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Store the server."""
        self._process = process
        self._number = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, and return its result."""
        self._number += 1
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request(method, self._number, **params)))
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert self._number == answer["id"]
        result: dict[str, Any] = answer["result"]
        return result

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return its result."""
        return self.ask("tools/call", name=tool, arguments=arguments)


@contextmanager
def started(*flags: str) -> Iterator[tuple[Client, float]]:
    """Start the server as an agent does; yield the client, and seconds until it spoke.

    Its handshake is done.
    """
    begin = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "planner", "mcp", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        client = Client(process)
        client.ask("initialize", protocolVersion="2025-11-25", capabilities={})
        yield client, time.monotonic() - begin
        assert process.stdin is not None
        process.stdin.close()
        assert 0 == process.wait(60)
