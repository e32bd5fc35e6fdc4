"""The websocket between a page and its kernel: limited, and screened (`screening`)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
from collections import Counter, defaultdict
from functools import partial
from typing import Any, ClassVar

from jupyter_client.utils import ensure_async
from jupyter_server.services.kernels.connection.channels import (
    ZMQChannelsWebsocketConnection,
)
from tornado.iostream import StreamBufferFullError
from tornado.web import HTTPError
from tornado.websocket import (
    WebSocketClosedError,
    WebSocketProtocol,
    WebSocketProtocol13,
)
from voila.tornado.kernel_websocket_handler import VoilaKernelWebsocketHandler

from planner.app.voila.pages import AppHandler
from planner.app.voila.screening import Allowance, screened

MESSAGE_BYTES = 256 * 1024
"""The largest message a page may send; the app's own are below 10 kB."""
MESSAGES_PER_SECOND = 200
"""A slider sends at most 60."""
_BURST = 400
BYTES_PER_SECOND = 64 * 1024
"""Of messages as they are once unpacked: a slider's have 600 each."""
_BURST_BYTES = 2 * MESSAGE_BYTES
_MOST_DROPPED, _MOST_DROPPED_BYTES = 5_000, 4 << 20
"""Of one connection, which ends then: unpacking what is dropped takes time as well."""
UNREAD_BYTES = 8 << 20
"""Of answers that a page does not read, or that wait for a page that lost its network;
the states of all widgets are a megabyte."""
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

    _kept_bytes = 0

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

    def disconnect(self) -> None:
        """Leave the kernel, and keep a part only of what it says meanwhile.

        Jupyter keeps everything for a page that may come back, without bound.

        Source: jupyter_server 2.21 `services/kernels/kernelmanager.py`,
        `start_buffering`.
        """
        super().disconnect()
        kept = self.multi_kernel_manager._kernel_buffers.get(self.kernel_id)
        if kept is not None and kept["session_key"] == self.session_key:
            for name, stream in kept["channels"].items():
                stream.on_recv(partial(self._keep, kept["buffer"], name))

    def _keep(self, kept: list[Any], channel: str, parts: list[bytes]) -> None:
        kept.append((channel, parts))
        self._kept_bytes += sum(map(len, parts))
        if self._kept_bytes > UNREAD_BYTES:
            self.multi_kernel_manager.stop_buffering(self.kernel_id)


class KernelSocket(AppHandler, VoilaKernelWebsocketHandler):
    """A page's socket to its own kernel, for comm messages only."""

    _sockets_of: ClassVar[defaultdict[str, dict[KernelSocket, None]]] = defaultdict(
        dict
    )
    """The sockets of each kernel, the oldest first."""
    _asked: ClassVar[Counter[str]] = Counter()
    """The requests for a socket to each kernel that have not ended."""

    _is_opened = False
    _is_gone = False
    """Whether the page closed its connection."""

    async def get(self, kernel_id: str) -> None:
        """Connect to the kernel of a visitor, never to one in the pool."""
        if not self.kernel_manager.is_open(kernel_id):
            raise HTTPError(404)
        self._check_handshake()
        if self._asked[kernel_id] >= 2 * MOST_SOCKETS:
            raise HTTPError(429)  # those that were closed have not gone yet
        self._allowances = (
            Allowance(MESSAGES_PER_SECOND, _BURST),
            Allowance(BYTES_PER_SECOND, _BURST_BYTES),
        )
        self._patience = (
            Allowance(0, _MOST_DROPPED),
            Allowance(0, _MOST_DROPPED_BYTES),
        )
        self._has_logged = False
        self._pong_at = time.monotonic()
        self._asked[kernel_id] += 1
        try:
            await super().get(kernel_id)
        finally:
            self._asked[kernel_id] -= 1
            if not self._asked[kernel_id]:
                del self._asked[kernel_id]
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
        if isinstance(self.ws_connection, WebSocketProtocol13):
            self.ws_connection.stream.max_write_buffer_size = UNREAD_BYTES
        self._is_opened = True
        sockets = self._sockets_of[kernel_id]
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
        messages, size = self._allowances
        if not (messages.take() and size.take(len(message))):
            self._log_once("A page sent too many messages; the rest is dropped.")
            number, lost = self._patience
            if not (number.take() and lost.take(len(message))):
                self._end()
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

    def write_message(self, message: Any, binary: bool = False) -> Any:  # noqa: ANN401 - as tornado has it
        """Send an answer to the page, or leave a page that reads none of them."""
        try:
            written = super().write_message(message, binary)
        except WebSocketClosedError:
            return None  # Jupyter would log what the kernel says meanwhile as errors
        except StreamBufferFullError:
            self._log_once("A page does not read its answers; its connection ends.")
            # Jupyter closes the kernel's sockets with it, one of which is being read.
            asyncio.get_running_loop().call_soon(self._end)
            return None
        if isinstance(written, asyncio.Future):
            written.add_done_callback(_seen)  # a page may go before it has it all
        return written

    def _end(self) -> None:
        """End the connection at once: `close` goes on reading until the page agrees."""
        if self.ws_connection is not None:
            self.ws_connection.stream.close()

    def on_close(self) -> None:
        """Record that the page is gone, or its network."""
        self._is_gone = True
        if not self._is_opened:
            return
        sockets = self._sockets_of[self.kernel_id]
        sockets.pop(self, None)
        if not sockets:
            del self._sockets_of[self.kernel_id]
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
        for socket in tuple(cls._sockets_of.get(kernel_id, ())):
            socket.close(1001, "The kernel ended.")

    def write_error(self, status_code: int, **details: object) -> None:
        """Answer a request that did not become a websocket."""
        AppHandler.write_error(self, status_code, **details)


def _seen(written: asyncio.Future[None]) -> None:
    """Take note of an error, which nobody else waits for."""
    if not written.cancelled():
        written.exception()


def _is_key(text: str) -> bool:
    """Return whether a text is a handshake's key: 16 bytes in base64."""
    try:
        return len(base64.b64decode(text.strip(), validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False
