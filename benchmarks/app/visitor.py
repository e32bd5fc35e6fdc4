"""A visitor without a browser: asks for the page, then talks to its kernel.

It does what the page does: GET, the kernel's websocket, the state of every widget, and
then one message for each step of a control.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from benchmarks.app import wire

PATIENCE_SECONDS = 30.0
_MOST_MESSAGE_BYTES = 32 * 2**20
_PAGE_CONFIG = re.compile(
    r'<script id="jupyter-config-data"[^>]*>(.*?)</script>', re.DOTALL
)
SLIDER = "gpu_memory_utilization"
_CONTROLS = ".Controls"


class NoPage(Exception):  # noqa: N818 - reads as the sentence it is
    """The server had no page, or the page no kernel."""


class Visitor:
    """One visitor, from the page to the last step."""

    def __init__(self, address: str, protocol: str = wire.V1) -> None:
        self._address = address
        self._protocol = protocol
        self._session = uuid4().hex
        self._socket: WebSocketClientConnection | None = None
        self._cookie = ""
        self._step: Callable[[float], dict[str, Any]] | None = None
        self.kernel_id = ""
        self.base_url = "/"
        self.page = ""
        self.received_bytes = 0
        self.num_received = 0

    async def __aenter__(self) -> Visitor:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.vanish()

    async def open(self) -> None:
        """Ask for the page, open its kernel's websocket, ask for the widgets' states.

        Raises:
            NoPage: when there is no page with a kernel.
        """
        await self.ask_for_page()
        await self.connect()
        await self.ask_for_states()

    async def ask_for_page(self) -> None:
        """GET the page and note its kernel.

        Raises:
            NoPage: for another answer than a page with a kernel.
        """
        asked = HTTPRequest(
            self._address,
            request_timeout=PATIENCE_SECONDS,
            decompress_response=True,
        )
        answer = await AsyncHTTPClient().fetch(asked, raise_error=False)
        self.page = answer.body.decode() if answer.body else ""
        config = _PAGE_CONFIG.search(self.page)
        if answer.code != 200 or config is None:  # noqa: PLR2004 - HTTP's OK
            raise NoPage(f"HTTP {answer.code}: {self.page[:200]}")
        told = json.loads(config[1])
        self.kernel_id, self.base_url = told["kernelId"], told["baseUrl"]
        self._cookie = "; ".join(
            cookie.partition(";")[0] for cookie in answer.headers.get_list("Set-Cookie")
        )

    async def connect(self) -> None:
        """Open the kernel's websocket."""
        place = urlsplit(self._address)
        path = f"{self.base_url}api/kernels/{self.kernel_id}/channels"
        address = f"ws://{place.netloc}{path}?session_id={self._session}"
        headers = {"Cookie": self._cookie} if self._cookie else {}
        self._socket = await websocket_connect(
            HTTPRequest(address, headers=headers, request_timeout=PATIENCE_SECONDS),
            subprotocols=[self._protocol] if self._protocol else None,
            max_message_size=_MOST_MESSAGE_BYTES,
        )

    async def ask_for_states(self) -> dict[str, Any]:
        """Ask for the state of every widget, as the page does before it draws."""
        comm = uuid4().hex
        opened = {
            "comm_id": comm,
            "target_name": "jupyter.widget.control",
            "data": {},
        }
        self.send("comm_open", opened)
        data = {"method": "request_states"}
        asked = self.send("comm_msg", {"comm_id": comm, "data": data})
        answer = await self._until(
            lambda message: (
                message.answers == asked
                and message.kind == "comm_msg"
                and message.content["data"].get("method") == "update_states"
            )
        )
        states: dict[str, Any] = answer.content["data"]["states"]
        self._step = step_of(states)
        return states

    async def move(self, value: float) -> float:
        """Move a slider; returns the seconds until the new chart has come.

        Raises:
            TimeoutError: when none comes.
        """
        if self._step is None:
            raise RuntimeError("The states come first.")
        began = time.perf_counter()
        asked = self.send("comm_msg", self._step(value))
        await self._until(
            lambda message: (
                message.answers == asked
                and message.kind == "comm_msg"
                and "figure" in message.content["data"].get("state", {})
            )
        )
        return time.perf_counter() - began

    def send(self, kind: str, content: dict[str, Any]) -> str:
        """Send a message to the kernel; returns its id."""
        if self._socket is None:
            raise RuntimeError("The socket comes first.")
        name, text = wire.written(self._protocol, kind, content, self._session)
        self._socket.write_message(text, binary=isinstance(text, bytes))
        return name

    def send_raw(self, text: str | bytes) -> None:
        """Send what may be no message at all."""
        if self._socket is not None:
            self._socket.write_message(text, binary=isinstance(text, bytes))

    async def leave(self) -> None:
        """Go as a closed page does: with a word to the server."""
        asked = HTTPRequest(
            f"{self._address.rstrip('/')}/voila/api/shutdown/{self.kernel_id}",
            method="POST",
            body="",
            headers={"Cookie": self._cookie} if self._cookie else {},
            request_timeout=PATIENCE_SECONDS,
        )
        await AsyncHTTPClient().fetch(asked, raise_error=False)
        self.vanish()

    def vanish(self) -> None:
        """Drop the socket without a word."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _until(self, is_it: Callable[[wire.Message], bool]) -> wire.Message:
        """Read until the message that is waited for.

        Raises:
            TimeoutError: when it does not come.
            ConnectionError: when the server closes the socket.
        """
        if self._socket is None:
            raise RuntimeError("The socket comes first.")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                received = await self._socket.read_message()
                if received is None:
                    raise ConnectionError("The server closed the socket.")
                message = wire.read(received)
                self.received_bytes += message.num_bytes
                self.num_received += 1
                if is_it(message):
                    return message


def step_of(states: dict[str, Any]) -> Callable[[float], dict[str, Any]]:
    """Return what moves a slider: a message's content, by the slider's value.

    Raises:
        NoPage: when the page has no such control.
    """
    for comm, widget in states.items():
        state = widget["state"]
        is_controls = str(state.get("_anywidget_id", "")).endswith(_CONTROLS)
        if is_controls and SLIDER in state["state"]:
            return partial(_set, comm)
    raise NoPage(f"The page has no slider of {SLIDER}.")


def _set(comm: str, value: float) -> dict[str, Any]:
    """Return what a page sends for a step: see `planner/app/widgets/controls.py`."""
    content = {"set": SLIDER, "value": value, "n": 1}
    return {"comm_id": comm, "data": {"method": "custom", "content": content}}
