"""The connection between a page and its kernel: bounded, and deaf to nonsense."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import ClassVar

from tornado.web import HTTPError
from voila.tornado.kernel_websocket_handler import VoilaKernelWebsocketHandler

from planner.voila.messages import screened
from planner.voila.pages import AppHandler

MESSAGE_BYTES = 256 * 1024
"""The largest message a page may send; the app's own are below 10 kB."""
MESSAGES_PER_SECOND = 200
"""A slider sends at most 60."""
_BURST = 400
PING_SECONDS = 15
MISSED_PINGS = 3


class Allowance:
    """Lets `per_second` through, and `burst` at once."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = burst
        self._asked = time.monotonic()

    def take(self) -> bool:
        """Tell whether one more may pass."""
        now = time.monotonic()
        gained = (now - self._asked) * self._per_second
        self._left = min(self._burst, self._left + gained)
        self._asked = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class KernelSocket(AppHandler, VoilaKernelWebsocketHandler):
    """A page's socket to its own kernel, over which it may send comm messages only."""

    _open: ClassVar[defaultdict[str, set[KernelSocket]]] = defaultdict(set)

    async def get(self, kernel_id: str) -> None:
        """Connect to the kernel of a visitor, not to one that waits for its own."""
        if not self.kernel_manager.is_open(kernel_id):
            raise HTTPError(404)
        self._allowance = Allowance(MESSAGES_PER_SECOND, _BURST)
        self._said = False
        self._heard_at = time.monotonic()
        await super().get(kernel_id)

    async def open(self, kernel_id: str) -> None:
        """Note the page that is connected."""
        # A step is answered by several small frames: without this the system holds back
        # all but the first until the browser has confirmed it, which takes 40 ms.
        self.set_nodelay(True)
        self._open[kernel_id].add(self)
        self.kernel_manager.connected(kernel_id)
        await super().open(kernel_id)

    def on_message(self, message: str | bytes) -> None:
        """Pass a message on, unless it is none or one too many."""
        if not self._allowance.take():
            self._say("A page sent too many messages; the rest is dropped.")
            return
        passed = screened(message, self.selected_subprotocol)
        if passed is None:
            self._say("A page sent what is no message of the app's; it is dropped.")
            return
        self.kernel_manager.heard(self.kernel_id)
        try:
            super().on_message(passed)
        except Exception:  # noqa: BLE001 - any bytes may arrive here
            self._say("A page sent what is no message; it is passed over.")

    def on_close(self) -> None:
        """Note that the page is gone, or its network."""
        sockets = self._open[self.kernel_id]
        sockets.discard(self)
        if not sockets:
            del self._open[self.kernel_id]
            self.kernel_manager.disconnected(self.kernel_id)
        if self.ping_callback is not None:
            self.ping_callback.stop()  # it would keep all this for a while
        super().on_close()

    def send_ping(self) -> None:
        """Ask whether the page is there; let go of it after three that it missed."""
        silent_since = time.monotonic() - self._heard_at
        if self.ws_connection is None or silent_since > MISSED_PINGS * PING_SECONDS:
            self.close()
            return
        self.ping(b"")

    def on_pong(self, _data: bytes) -> None:
        """Note that the page is there."""
        self._heard_at = time.monotonic()

    def _say(self, text: str) -> None:
        """Log once for a connection: a flood must not fill the disk."""
        if not self._said:
            self._said = True
            self.log.warning(text)

    @classmethod
    def disconnect_all(cls, kernel_id: str) -> None:
        """Close the connections to a kernel that ended."""
        for socket in tuple(cls._open.get(kernel_id, ())):
            socket.close(1001, "The kernel ended.")

    def write_error(self, status_code: int, **details: object) -> None:
        """Answer a request that did not become a socket."""
        AppHandler.write_error(self, status_code, **details)
