"""The websocket between a page and its kernel: rate-limited, and screened.

Only messages to widgets that the kernel created reach it. Anybody can send anything
through a page's socket, so a message that passes is serialised again: then no two
programs can parse it differently.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import itertools
import json
import re
import struct
import time
from collections import defaultdict
from typing import Any, ClassVar

from jupyter_client.utils import ensure_async
from jupyter_server.services.kernels.connection.channels import (
    ZMQChannelsWebsocketConnection,
)
from tornado.web import HTTPError
from tornado.websocket import WebSocketProtocol, WebSocketProtocol13
from voila.tornado.kernel_websocket_handler import VoilaKernelWebsocketHandler

from planner.app.voila.pages import AppHandler

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
MESSAGE_BYTES = 256 * 1024
"""The largest message a page may send; the app's own are below 10 kB."""
MESSAGES_PER_SECOND = 200
"""A slider sends at most 60."""
_BURST = 400
PING_SECONDS = 15
MISSED_PINGS = 3
MOST_SOCKETS = 3
"""Of one kernel: a page has one, and one more until a lost one is noticed."""
_VERSIONS = ("7", "8", "13")
"""Of the protocol. Source: tornado 6.6 `websocket.py`, `get_websocket_protocol`."""
_KEY_BYTES = 16
_COMPRESSION = re.compile(
    r"permessage-deflate"
    r"(?:; *(?:client|server)_no_context_takeover|; *client_max_window_bits)*"
)
"""The offer of compression that browsers make."""
_SESSION = re.compile(r"[0-9A-Za-z_-]{0,64}")
"""A page's name for its connection: ZeroMQ takes at most 255 bytes."""


class KernelConnection(ZMQChannelsWebsocketConnection):
    """What Jupyter has of a socket and its kernel, and no longer than they last.

    Jupyter's timer for the kernel's first answer goes on for a minute after the answer
    has come, with everything that belongs to the page: 50 KB each, measured.

    Source: jupyter_server 2.21 `services/kernels/connection/channels.py`, `prepare`.
    """

    async def prepare(self) -> None:
        """Ask the kernel what it is, and wait for its answer.

        Raises:
            HTTPError: where the kernel has ended.
        """
        await self._register_session()
        if not await ensure_async(self.kernel_manager.is_alive()):
            raise HTTPError(404)
        self.session.key = self.kernel_manager.session.key
        answer = self.request_kernel_info()
        waiting = asyncio.shield(asyncio.wrap_future(answer))
        try:
            await asyncio.wait_for(waiting, self.kernel_info_timeout)
        except TimeoutError:
            self.log.warning("A kernel does not say what it is.")
            if not answer.done():  # other sockets of this kernel wait for it as well
                answer.set_result({})


class KernelSocket(AppHandler, VoilaKernelWebsocketHandler):
    """A page's socket to its own kernel, for comm messages only."""

    _open: ClassVar[defaultdict[str, dict[KernelSocket, None]]] = defaultdict(dict)
    """The sockets of each kernel, the oldest first."""

    _is_opened = False
    _is_gone = False
    """Whether the page closed its connection."""

    async def get(self, kernel_id: str) -> None:
        """Connect to the kernel of a visitor, never to one in the pool."""
        if not self.kernel_manager.is_open(kernel_id):
            raise HTTPError(404)
        self._check_handshake()
        if len(self._open.get(kernel_id, ())) >= 2 * MOST_SOCKETS:
            raise HTTPError(429)  # those that were closed have not gone yet
        self._allowance = Allowance(MESSAGES_PER_SECOND, _BURST)
        self._has_logged = False
        self._pong_at = time.monotonic()
        try:
            await super().get(kernel_id)
        finally:
            if not self._is_opened:
                self._forget_session()

    async def pre_get(self) -> None:
        """Prepare the kernel, and open no socket where one end has gone meanwhile.

        Nobody would close such a socket, or the four that Jupyter opens to the kernel.

        Raises:
            HTTPError: where the page, or its kernel, has gone.
        """
        await super().pre_get()
        if self._is_gone or not self.kernel_manager.is_open(self.kernel_id):
            raise HTTPError(404)

    def _check_handshake(self) -> None:
        """Refuse what will be no socket, before Jupyter stores anything of it.

        Jupyter registers the session of each request, and forgets it when its socket is
        closed: one that never opens would stay for good.

        Raises:
            HTTPError: for a request that is no handshake, or of another site.
        """
        headers = self.request.headers
        words = headers.get("Connection", "").lower().replace(" ", "").split(",")
        is_handshake = (
            headers.get("Upgrade", "").lower() == "websocket"
            and "upgrade" in words
            and headers.get("Sec-WebSocket-Version") in _VERSIONS
            and _is_key(headers.get("Sec-WebSocket-Key", ""))
            and _SESSION.fullmatch(self.get_argument("session_id", ""))
        )
        if not is_handshake:
            raise HTTPError(400)
        if not self.check_origin():
            raise HTTPError(403)
        offered = headers.get("Sec-WebSocket-Extensions", "")
        if offered and not _COMPRESSION.fullmatch(offered):
            del headers["Sec-WebSocket-Extensions"]  # tornado fails on most others

    def _forget_session(self) -> None:
        """Remove what Jupyter stored of a handshake that failed.

        Source: jupyter_server 2.21 `services/kernels/connection/channels.py`,
        `_register_session` and `request_kernel_info`, whose socket stays open where the
        kernel never answers; `disconnect` would count a page that left.
        """
        connection = getattr(self, "connection", None)
        if connection is None:
            return
        sessions = connection._open_sessions
        for key in [key for key, handler in sessions.items() if handler is self]:
            del sessions[key]
        asked = connection.kernel_info_channel
        if asked is not None and not asked.closed():
            asked.close()

    def get_websocket_protocol(self) -> WebSocketProtocol | None:
        """Return tornado's protocol without its own pings, for Jupyter's are sent.

        It takes Jupyter's milliseconds for seconds, and a timer of four hours keeps the
        socket after its end.

        Source: tornado 6.6 `websocket.py`, jupyter_server 2.21 `base/websocket.py`.
        """
        protocol: WebSocketProtocol | None = super().get_websocket_protocol()
        if isinstance(protocol, WebSocketProtocol13):
            protocol.params.ping_interval = 0
        return protocol

    async def open(self, kernel_id: str) -> None:
        """Record the page that is connected."""
        # A step is answered by several small frames: otherwise the system delays all
        # but the first until the browser acknowledges it, which takes 40 ms.
        self.set_nodelay(True)
        self._is_opened = True
        sockets = self._open[kernel_id]
        for old in list(sockets)[: max(len(sockets) + 1 - MOST_SOCKETS, 0)]:
            old.close(1001, "A newer connection takes its place.")
        sockets[self] = None
        self.kernel_manager.connected(kernel_id)
        try:
            await super().open(kernel_id)
        except BaseException:
            self.on_close()  # tornado calls it for a socket that was open only
            raise

    def on_message(self, message: str | bytes) -> None:
        """Pass a message on, unless it is invalid or one too many."""
        if not self._allowance.take():
            self._log_once("A page sent too many messages; the rest is dropped.")
            return
        passed = screened(message, self.selected_subprotocol)
        if passed is None:
            self._log_once(
                "A page sent a message that is not the app's; it is dropped."
            )
            return
        self.kernel_manager.received(self.kernel_id)
        try:
            super().on_message(passed)
        except Exception:  # noqa: BLE001 - any bytes may arrive here
            self._log_once("A page sent invalid data; it is ignored.")

    def on_close(self) -> None:
        """Record that the page is gone, or its network."""
        self._is_gone = True
        if not self._is_opened:
            return
        sockets = self._open[self.kernel_id]
        sockets.pop(self, None)
        if not sockets:
            del self._open[self.kernel_id]
            self.kernel_manager.disconnected(self.kernel_id)
        if self.ping_callback is not None:
            self.ping_callback.stop()  # it would keep this handler alive for a while
        super().on_close()
        self._forget_buffer()

    def _forget_buffer(self) -> None:
        """Close what Jupyter keeps for a page that may come back to a kernel that ends.

        It forgets what it kept before it ends a kernel; a page that leaves while the
        kernel ends would add four sockets to it, for good.

        Source: jupyter_server 2.21 `services/kernels/kernelmanager.py`,
        `_async_shutdown_kernel`.
        """
        manager = self.kernel_manager
        if self.kernel_id in manager and not manager.is_open(self.kernel_id):
            manager.stop_buffering(self.kernel_id)

    def send_ping(self) -> None:
        """Ping the page; close the connection after three missed pings."""
        silent_since = time.monotonic() - self._pong_at
        if self.ws_connection is None or silent_since > MISSED_PINGS * PING_SECONDS:
            self.close()
            return
        self.ping(b"")

    def on_pong(self, _data: bytes) -> None:
        """Record that the page is alive."""
        self._pong_at = time.monotonic()

    def _log_once(self, text: str) -> None:
        """Log once per connection: a flood must not fill the disk."""
        if not self._has_logged:
            self._has_logged = True
            self.log.warning(text)

    @classmethod
    def disconnect_all(cls, kernel_id: str) -> None:
        """Close the connections to a kernel that ended."""
        for socket in tuple(cls._open.get(kernel_id, ())):
            socket.close(1001, "The kernel ended.")

    def write_error(self, status_code: int, **details: object) -> None:
        """Answer a request that did not become a websocket."""
        AppHandler.write_error(self, status_code, **details)


def _is_key(text: str) -> bool:
    """Return whether a text is a handshake's key: 16 bytes in base64."""
    try:
        return len(base64.b64decode(text.strip(), validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False


class Allowance:
    """A rate limit of `per_second` messages, and `burst` at once."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = burst
        self._updated = time.monotonic()

    def take(self) -> bool:
        """Return whether one more may pass."""
        now = time.monotonic()
        gained = (now - self._updated) * self._per_second
        self._left = min(self._burst, self._left + gained)
        self._updated = now
        if self._left < 1:
            return False
        self._left -= 1
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
    return kind != "comm_open" or content["target_name"] in _OPENED


def _object(text: str | bytes) -> dict[str, Any]:
    return _dictionary(json.loads(text))


def _dictionary(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("no JSON object")
    return value
