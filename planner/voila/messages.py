"""Which messages of a page reach its kernel: those of widgets that the kernel made.

Anybody can write anything into a page's socket. What passes is written anew, so that no
two programs can read one message in two ways.
"""

from __future__ import annotations

import itertools
import json
import struct
from typing import Any

V1 = "v1.kernel.websocket.jupyter.org"
"""Jupyter's name of its newer way to write messages."""

_SHELL = "shell"
_PARTS = 4
"""Header, parent header, metadata, content."""
_MOST_PARTS = 16
_NUMBER_BYTES = 8
_OPENED = frozenset(("jupyter.widget.control",))
"""What a page may open a comm to; `jupyter.widget` would make any widget there is."""

_CONTENT: dict[str, frozenset[str]] = {
    "comm_msg": frozenset(("comm_id", "data")),
    "comm_close": frozenset(("comm_id",)),
    "comm_open": frozenset(("comm_id", "target_name")),
    "comm_info_request": frozenset(),
    "kernel_info_request": frozenset(),
}
"""Types of messages that pass, and what their content must hold."""


def screened(message: str | bytes, protocol: str | None) -> str | bytes | None:
    """Return the message as it is passed on to the kernel; None for one that is not.

    Args:
        message: as it came over the socket.
        protocol: the way to write messages that page and server agreed on.
    """
    try:
        if protocol == V1:
            return _newer(message) if isinstance(message, bytes) else None
        # The older way has a form for binary data, which the app does not use.
        return _older(message) if isinstance(message, str) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _newer(message: bytes) -> bytes | None:
    """Check offsets, channel, header and content.

    Source: Jupyter Server's documentation, "WebSocket kernel wire protocols".
    """
    channel, *parts = _parts(message)
    if channel != _SHELL.encode() or len(parts) < _PARTS:
        return None
    header, parent, metadata, content = (_object(part) for part in parts[:_PARTS])
    if not _may_pass(header, content):
        return None
    written = [json.dumps(one).encode() for one in (header, parent, metadata, content)]
    return _joined([channel, *written, *parts[_PARTS:]])


def _parts(message: bytes) -> list[bytes]:
    """Cut a message at its offsets.

    Raises:
        ValueError: where they are too many, or out of order.
    """
    count = int.from_bytes(message[:_NUMBER_BYTES], "little")
    if not 1 < count <= _MOST_PARTS or len(message) < _NUMBER_BYTES * (count + 1):
        raise ValueError("no offsets")
    offsets = struct.unpack_from(f"<{count}Q", message, _NUMBER_BYTES)
    begins = _NUMBER_BYTES * (count + 1)
    if list(offsets) != sorted(offsets) or offsets[0] < begins:
        raise ValueError("offsets out of order")
    if offsets[-1] != len(message):
        raise ValueError("offsets beyond the end")
    return [message[a:b] for a, b in itertools.pairwise(offsets)]


def _joined(parts: list[bytes]) -> bytes:
    offsets = [_NUMBER_BYTES * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(
        parts
    )


def _older(message: str) -> str | None:
    content = _object(message)
    if content.get("channel") != _SHELL or content.get("buffers"):
        return None
    if not _may_pass(_dictionary(content["header"]), _dictionary(content["content"])):
        return None
    return json.dumps(content)


def _may_pass(header: dict[str, Any], content: dict[str, Any]) -> bool:
    kind = header["msg_type"]
    needed = _CONTENT.get(kind) if isinstance(kind, str) else None
    if needed is None or not needed <= content.keys():
        return False
    if not isinstance(header.get("msg_id"), str):
        return False
    if "comm_id" in needed and not isinstance(content["comm_id"], str):
        return False
    return kind != "comm_open" or content["target_name"] in _OPENED


def _object(text: str | bytes) -> dict[str, Any]:
    return _dictionary(json.loads(text))


def _dictionary(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("no JSON object")
    return value
