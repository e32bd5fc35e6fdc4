"""Which messages of a page may reach its kernel, and how many.

Only messages to widgets that the kernel created pass. Anybody can send anything through
a page's socket, so a message that passes is serialised again: then no two programs can
parse it differently.
"""

from __future__ import annotations

import itertools
import json
import struct
import time
from typing import Any

V1 = "v1.kernel.websocket.jupyter.org"
"""Jupyter's name of its newer message format."""
_SHELL = "shell"
_PARTS = 4
"""Header, parent header, metadata, content."""
_MOST_PARTS = 16
_NUMBER_BYTES = 8
_OPENED = frozenset(("jupyter.widget.control",))
"""Targets to which a page may open a comm; `jupyter.widget` would create any widget."""
_CONTENT: dict[str, frozenset[str]] = {
    "comm_msg": frozenset(("comm_id", "data")),
    "comm_close": frozenset(("comm_id",)),
    "comm_open": frozenset(("comm_id", "target_name")),
    "comm_info_request": frozenset(),
    "kernel_info_request": frozenset(),
}
"""Types of messages that pass, and the required keys of their content."""
MOST_VALUES = 4_000
"""Of one message: reading an empty list takes as long as 40 letters of a text."""
UPDATE_BYTES = 4 * 1024
"""Of the content of an update: what is entered is shorter, and long texts are sent as
messages of their own. The kernel keeps the state of every widget, and sends all of them
to whoever asks."""


class Allowance:
    """A rate limit of `per_second` messages, or bytes, and `burst` at once."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = burst
        self._updated = time.monotonic()

    def take(self, number: int = 1) -> bool:
        """Return whether so many more may pass."""
        now = time.monotonic()
        gained = (now - self._updated) * self._per_second
        self._left = min(self._burst, self._left + gained)
        self._updated = now
        if self._left < number:
            return False
        self._left -= number
        return True


def screened(message: str | bytes, protocol: str | None) -> str | bytes | None:
    """Return the message to pass on to the kernel; None for one that is refused.

    Args:
        message: as it came over the socket.
        protocol: the message format that page and server agreed on.
    """
    try:
        if protocol == V1:
            return _newer(message) if isinstance(message, bytes) else None
        # The older format has a variant for binary data, which the app does not use.
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
    """Split a message at its offsets.

    Raises:
        ValueError: where there are too many of them, or they are out of order.
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
    if kind == "comm_msg":
        return _is_short(_dictionary(content["data"]))
    return kind != "comm_open" or content["target_name"] in _OPENED


def _is_short(data: dict[str, Any]) -> bool:
    return data.get("method") == "custom" or len(json.dumps(data)) <= UPDATE_BYTES


def _object(text: str | bytes) -> dict[str, Any]:
    """Read a JSON object of few values.

    Raises:
        ValueError: where it has more; and for what is no JSON.
    """
    raw = text.encode() if isinstance(text, str) else text
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    if unescaped.count(b'"') > 4 * MOST_VALUES:  # a name and a value
        raise ValueError("too many texts")
    outside = b"".join(unescaped.split(b'"')[::2])
    if sum(outside.count(sign) for sign in (b"[", b"{", b",")) > MOST_VALUES:
        raise ValueError("too many values")
    return _dictionary(json.loads(text))


def _dictionary(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("no JSON object")
    return value
