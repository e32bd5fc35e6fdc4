"""The Model Context Protocol, a JSON-RPC message a line: what it asks, and answers.

Source: MCP 2024-11-05 to 2025-11-25 (`initialize`), 2026-07-28 (`server/discover`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from threading import Thread
from typing import Any, BinaryIO, NoReturn, TextIO

from planner.version import __version__

HANDSHAKES = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions that begin with `initialize`, the newest first."""
DISCOVERED = "2026-07-28"
"""The version whose requests each say it, after `server/discover`."""
LONGEST_BYTES = 1 << 20
"""Of a message; a longer one is not read."""
_MOST_AT_ONCE = 20
"""Requests of a batch, which version 2025-03-26 has."""
_PARSE, _INVALID, _NO_METHOD, _ARGUMENTS = -32700, -32600, -32601, -32602
_INTERNAL, _VERSION = -32603, -32022
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_ANSWERS = f"{__package__}.answers"
_INSTRUCTIONS = (
    "Plans GPU memory of vLLM before it starts. Name the model and the GPU: ask the "
    "user where you do not know them. Quote how a figure is known (exact, formula, "
    "measured, assumed) and what is not counted. Sizes are whole bytes, GiB is 2**30 "
    "bytes. A plan that does not fit is an answer. For the arithmetic call a tool "
    "again with whole=true."
)
_CAPABILITIES: dict[str, Any] = {"tools": {"listChanged": False}}
_FRESH = {"ttlMs": 3_600_000, "cacheScope": "public"}
"""How long a client may keep what it is told here, which one version asks for."""


class _Refused(Exception):  # noqa: N818 - reads as the sentence it is
    """A message that gets the protocol's error, not a tool's."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


def serve() -> None:
    """Answer until standard input ends.

    Standard output is the protocol's alone: what a library prints goes to standard
    error.
    """
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        answer_all(sys.stdin.buffer, out)
    except BrokenPipeError:  # the client has ended
        return


def answer_all(messages: BinaryIO, out: TextIO) -> None:
    """Answer the messages of a stream, each on a line.

    What answers tools is imported after the first answer, while the client reads it.
    """
    warming: Thread | None = None
    for line in _lines(messages):
        answer = _answer_to(line)
        if answer is not None:
            out.write(json.dumps(answer, default=str) + "\n")
            out.flush()
        if warming is None:
            warming = Thread(target=import_module, args=[_ANSWERS], daemon=True)
            warming.start()


def _lines(messages: BinaryIO) -> Iterator[bytes | None]:
    """Yield each line; None for one that is too long."""
    while line := messages.readline(LONGEST_BYTES + 1):
        is_long = len(line) > LONGEST_BYTES
        while is_long and line and not line.endswith(b"\n"):
            line = messages.readline(LONGEST_BYTES)
        if is_long:
            yield None
        elif line.strip():
            yield line


def _answer_to(line: bytes | None) -> Any:  # noqa: ANN401 - a message or a batch
    """Return the answer to a line; None where there is none."""
    if line is None:
        return _error(None, _PARSE, f"A message has at most {LONGEST_BYTES:,} bytes.")
    try:
        message = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return _error(None, _PARSE, "A message is JSON, in one line.")
    if not isinstance(message, list):
        return _answered(message)
    if not 0 < len(message) <= _MOST_AT_ONCE:
        return _error(None, _INVALID, f"A batch has 1 to {_MOST_AT_ONCE} messages.")
    return [one for one in map(_answered, message) if one is not None] or None


def _no_number(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which JSON does not have."""
    raise ValueError(name)


def _answered(message: object) -> dict[str, Any] | None:
    """Return the answer to a message; None to a notification and to an answer."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return _error(None, _INVALID, "A message is an object of JSON-RPC 2.0.")
    method, number = message.get("method"), message.get("id")
    if number is None or not isinstance(method, str):
        return None
    if not isinstance(number, str | int):
        return _error(None, _INVALID, "id is a text or a whole number.")
    try:
        result = _result_of(method, message.get("params", {}))
    except _Refused as refused:
        return {"jsonrpc": "2.0", "id": number, "error": refused.error}
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _result_of(method: str, params: object) -> dict[str, Any]:
    """Return the result of a request.

    Raises:
        _Refused: for a method that there is not, and for params that it does not take.
    """
    if not isinstance(params, dict):
        raise _Refused(_ARGUMENTS, "params is an object.")
    _check_version(params)
    if method not in _METHODS:
        raise _Refused(_NO_METHOD, f"There is no method {method[:100]!r}.")
    return _METHODS[method](params)


def _error(number: object, code: int, message: str) -> dict[str, Any]:
    error = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": number, "error": error}


def _check_version(params: Mapping[str, Any]) -> None:
    """Refuse a request that names a version which is not spoken.

    Raises:
        _Refused: naming those that are.
    """
    meta = params.get("_meta")
    version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    spoken = (DISCOVERED, *HANDSHAKES)
    if version is not None and version not in spoken:
        data = {"supported": list(spoken), "requested": str(version)[:100]}
        raise _Refused(_VERSION, "This version is not spoken here.", data)


def _initialize(params: Mapping[str, Any]) -> dict[str, Any]:
    wanted = params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in HANDSHAKES else HANDSHAKES[0],
        "capabilities": _CAPABILITIES,
        "serverInfo": _info(),
        "instructions": _INSTRUCTIONS,
    }


def _discover(_params: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "supportedVersions": [DISCOVERED],
        "capabilities": _CAPABILITIES,
        "instructions": _INSTRUCTIONS,
        **_FRESH,
        **_complete(),
    }


def _info() -> dict[str, str]:
    return {
        "name": "vllm-memory-planner",
        "title": "vLLM memory planner",
        "version": __version__,
    }


def _complete() -> dict[str, Any]:
    """Return what the newest version has in each result, and others leave aside."""
    meta = {"io.modelcontextprotocol/serverInfo": _info()}
    return {"resultType": "complete", "_meta": meta}


def _ping(params: Mapping[str, Any]) -> dict[str, Any]:
    is_newest = "_meta" in params
    return {"resultType": "complete"} if is_newest else {}


def _list(_params: Mapping[str, Any]) -> dict[str, Any]:
    from planner.app.mcp.tools import TOOLS  # noqa: PLC0415 - a handshake needs none

    return {
        "tools": [tool.listed() for tool in TOOLS.values()],
        **_FRESH,
        **_complete(),
    }


def _call(params: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool.

    Raises:
        _Refused: for a tool that there is not, and where the planner itself fails.
    """
    from planner.app.mcp.answers import call  # noqa: PLC0415 - slow
    from planner.app.mcp.tools import TOOLS  # noqa: PLC0415 - a handshake needs none

    name, given = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or name not in TOOLS:
        names = ", ".join(TOOLS)
        raise _Refused(_ARGUMENTS, f"There is no such tool; there are {names}.")
    if given is not None and not isinstance(given, dict):
        raise _Refused(_ARGUMENTS, "arguments is an object.")
    try:
        found = call(TOOLS[name], given or {})
    except Exception as failure:  # noqa: BLE001 - the next question is still answered
        sys.stderr.write(f"planner: {type(failure).__name__}: {failure}\n"[:2000])
        raise _Refused(_INTERNAL, "The planner failed at this question.") from None
    return {**found, **_complete()}


_METHODS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "initialize": _initialize,
    "server/discover": _discover,
    "ping": _ping,
    "tools/list": _list,
    "tools/call": _call,
}
