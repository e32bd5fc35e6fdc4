"""The websocket between a page and its kernel: limited, and screened (`screening`)."""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from contextlib import suppress
from typing import Any, ClassVar

from jupyter_server.services.kernels.connection.channels import (
    ZMQChannelsWebsocketConnection,
)
from tornado.iostream import StreamBufferFullError
from tornado.web import HTTPError
from tornado.websocket import (
    WebSocketClosedError,
    WebSocketHandler,
    WebSocketProtocol13,
)
from voila.tornado.kernel_websocket_handler import VoilaKernelWebsocketHandler

from planner.app.voila.pages import AppHandler
from planner.app.voila.screening import V1, Allowance, screened

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
"""Of answers that a page does not read; the states of all widgets are a megabyte."""
PING_SECONDS = 15
MISSED_PINGS = 3
MOST_SOCKETS = 3
"""Of one kernel: a page has one, and one more until a lost one is noticed."""
_COMPRESSION = re.compile(
    r"permessage-deflate"
    r"(?:; *(?:client|server)_no_context_takeover|; *client_max_window_bits)*"
)
"""The offer of compression that browsers make."""
_SESSION = re.compile(r"[0-9A-Za-z_-]{0,64}")
"""A page's name for its connection: ZeroMQ takes at most 255 bytes."""


class KernelConnection(ZMQChannelsWebsocketConnection):
    """What Jupyter has of a socket and its kernel, and no longer than they last."""

    async def prepare(self) -> None:
        """Take the kernel's key, and ask nothing: it speaks this server's version.

        Jupyter's timer for the answer goes on for a minute after it has come, with
        everything that belongs to the page: 50 KB each, measured.
        """
        self.session_key = f"{self.kernel_id}:{self.session.session}"
        self.session.key = self.kernel_manager.session.key


class KernelSocket(AppHandler, VoilaKernelWebsocketHandler):
    """A page's socket to its own kernel, for comm messages only.

    It is open before Jupyter hears of it: what Jupyter stores of a request is removed
    when its socket closes, and one that never opened would stay for good.
    """

    _sockets_of: ClassVar[defaultdict[str, dict[KernelSocket, None]]] = defaultdict(
        dict
    )
    """The sockets of each kernel, the oldest first."""

    connection: KernelConnection | None = None
    """Jupyter's part of it."""
    _connecting: asyncio.Future[None] | None = None

    async def get(self, kernel_id: str) -> None:
        """Open a socket to the kernel of a visitor, never to one in the pool.

        Raises:
            HTTPError: where there is none, or the session's name is odd.
        """
        if not self.kernel_manager.is_open(kernel_id):
            raise HTTPError(404)
        if len(self._sockets_of.get(kernel_id, ())) >= 2 * MOST_SOCKETS:
            raise HTTPError(429)  # those that were ended have not gone yet
        self.session_name = self.get_argument("session_id", "")
        if not _SESSION.fullmatch(self.session_name):
            raise HTTPError(400)
        offered = self.request.headers.get("Sec-WebSocket-Extensions", "")
        if offered and not _COMPRESSION.fullmatch(offered):
            # tornado fails on most others
            del self.request.headers["Sec-WebSocket-Extensions"]
        self.kernel_id = kernel_id
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
        await WebSocketHandler.get(self, kernel_id=kernel_id)

    def select_subprotocol(self, offered: list[str]) -> str | None:
        """Choose Jupyter's newer format where the page knows it."""
        return V1 if V1 in offered else None

    async def open(self, kernel_id: str) -> None:
        """Connect the page to its kernel, unless one of them goes meanwhile."""
        # A step is answered by several small frames: otherwise the system delays all
        # but the first until the browser acknowledges it, which takes 40 ms.
        self.set_nodelay(True)
        if isinstance(self.ws_connection, WebSocketProtocol13):
            stream = self.ws_connection.stream
            stream.max_write_buffer_size = UNREAD_BYTES
            # tornado itself notices only later that a page has left meanwhile.
            stream.set_close_callback(self.on_connection_close)
        sockets = self._sockets_of[kernel_id]
        sockets[self] = None
        too_many = list(sockets)[:-MOST_SOCKETS]
        for old in list(sockets)[:-1]:
            if old in too_many or old.session_name == self.session_name != "":
                old.end("A newer connection takes its place.")
        self.kernel_manager.connected(kernel_id)
        await self.pre_get()
        self._connecting = self.connection and self.connection.connect()
        if self._connecting is not None:
            await self._connecting

    def on_message(self, message: str | bytes) -> None:
        """Pass a message on, unless it is invalid or one too many."""
        messages, size = self._allowances
        if not (messages.take() and size.take(len(message))):
            self._log_once("A page sent too many messages; the rest is dropped.")
            number, lost = self._patience
            if not (number.take() and lost.take(len(message))):
                self.end()
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
            asyncio.get_running_loop().call_soon(self.end)
            return None
        if isinstance(written, asyncio.Future):
            written.add_done_callback(_seen)  # a page may go before it has it all
        return written

    def end(self, reason: str | None = None) -> None:
        """End the connection at once: `close` goes on reading until the page agrees."""
        connection = self.ws_connection
        with suppress(StreamBufferFullError):  # then it does not hear why
            self.close(1001, reason)
        if isinstance(connection, WebSocketProtocol13):
            connection.stream.close()

    def on_close(self) -> None:
        """Record that the page is gone, or its network."""
        sockets = self._sockets_of[self.kernel_id]
        sockets.pop(self, None)
        if not sockets:
            del self._sockets_of[self.kernel_id]
            self.kernel_manager.disconnected(self.kernel_id)
        if self._connecting is not None:
            # Jupyter would ask a kernel for a minute whether it hears a page that left.
            self._connecting.cancel()
        if self.connection is not None:
            super().on_close()

    @classmethod
    def ping_all(cls) -> None:
        """Ping every page; leave those that have missed three pings."""
        oldest = time.monotonic() - MISSED_PINGS * PING_SECONDS
        for socket in [one for sockets in cls._sockets_of.values() for one in sockets]:
            if socket._pong_at < oldest:
                socket.end()
            else:
                with suppress(WebSocketClosedError):
                    socket.ping(b"")

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
