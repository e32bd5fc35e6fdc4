"""What an attacker has: raw requests, raw sockets, and the page's own words."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import struct
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

V1 = "v1.kernel.websocket.jupyter.org"
_CONFIG = re.compile(
    r'<script id="jupyter-config-data" type="application/json">(.*?)</script>', re.S
)
PATIENCE = 120.0
Result = TypeVar("Result")


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a header; None without it."""
        found = [v for key, v in self.headers if key.lower() == name.lower()]
        return found[0] if found else None


def _anybody() -> ssl.SSLContext:
    """Accept the certificate that a test made."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def ask(
    address: str,
    path: str = "/",
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
) -> Answer:
    """Send a request as it is given: no path is put right."""
    place = urlsplit(address)
    if place.scheme == "https":
        connection: HTTPConnection = HTTPSConnection(
            place.netloc, timeout=PATIENCE, context=_anybody()
        )
    else:
        connection = HTTPConnection(place.netloc, timeout=PATIENCE)
    try:
        connection.putrequest(method, path, skip_host="Host" in (headers or {}))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        body = b"" if answer.status == 101 else answer.read()
        return Answer(answer.status, answer.getheaders(), body)
    finally:
        connection.close()


@dataclass
class Visitor:
    """Somebody with a page of his own."""

    address: str
    config: dict[str, Any] = field(default_factory=dict)
    html: str = ""

    @classmethod
    def at(cls, address: str, query: str = "") -> Visitor:
        """Open the page."""
        answer = ask(address, f"/{query}")
        assert answer.status == 200, answer
        html = answer.body.decode()
        found = _CONFIG.search(html)
        assert found is not None
        return cls(address, json.loads(found[1]), html)

    @property
    def kernel_id(self) -> str:
        """Of the kernel behind the page."""
        return str(self.config["kernelId"])

    def leave(self) -> int:
        """Close the page, as its own script does."""
        path = f"/voila/api/shutdown/{self.kernel_id}"
        return ask(self.address, path, method="POST", body=b"").status

    @asynccontextmanager
    async def connected(
        self, protocol: str | None = V1
    ) -> AsyncIterator[WebSocketClientConnection]:
        """The kernel's socket, for a while."""
        at = self.address.replace("http", "ws", 1)
        request = HTTPRequest(
            f"{at}api/kernels/{self.kernel_id}/channels?session_id={uuid4()}",
            request_timeout=PATIENCE,
            validate_cert=False,
        )
        protocols = [protocol] if protocol else None
        socket = await websocket_connect(request, subprotocols=protocols)
        try:
            yield socket
        finally:
            is_open = socket.close_code is None
            socket.close()
            if is_open:
                await drained(socket)

    def handshake(
        self, kernel_id: str | None = None, headers: dict[str, str] | None = None
    ) -> int:
        """The status of an attempt to open a kernel's socket: 101 where it opens."""
        path = f"/api/kernels/{kernel_id or self.kernel_id}/channels?session_id=s"
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        return ask(self.address, path, headers=upgrade | (headers or {})).status


def _header(kind: object) -> tuple[str, dict[str, object]]:
    """A new id, and the header of a message that has it."""
    name = uuid4().hex
    return name, {
        "msg_id": name,
        "msg_type": kind,
        "username": "",
        "session": "s",
        "version": "5.3",
        "date": "2026-01-01T00:00:00Z",
    }


def newer(
    kind: object,
    content: object,
    channel: str = "shell",
    metadata: object = None,
) -> tuple[str, bytes]:
    """The id of a message, and the message as today's page writes it."""
    name, header = _header(kind)
    parts = [channel.encode()]
    parts += [
        json.dumps(part).encode() for part in (header, {}, metadata or {}, content)
    ]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    numbers = struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets)
    return name, numbers + b"".join(parts)


def older(kind: object, content: object, channel: str = "shell") -> tuple[str, str]:
    """The id of a message, and the message in Jupyter's older way."""
    name, header = _header(kind)
    message = {
        "channel": channel,
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content,
    }
    return name, json.dumps(message)


def parsed(message: str | bytes) -> dict[str, Any]:
    """Header, parent and content of what the kernel says."""
    if isinstance(message, str):
        read = json.loads(message)
        return {
            "type": read["header"]["msg_type"],
            "parent": read["parent_header"].get("msg_id"),
            "content": read["content"],
        }
    (count,) = struct.unpack_from("<Q", message)
    offsets = struct.unpack_from(f"<{count}Q", message, 8)
    header, parent, _, content = (
        json.loads(message[offsets[n] : offsets[n + 1]]) for n in range(1, 5)
    )
    return {
        "type": header["msg_type"],
        "parent": parent.get("msg_id"),
        "content": content,
    }


async def heard_until(
    socket: WebSocketClientConnection, name: str, kind: str
) -> list[dict[str, Any]]:
    """What the kernel says until it answers the message called `name`."""
    heard: list[dict[str, Any]] = []
    while True:
        message = await asyncio.wait_for(socket.read_message(), PATIENCE)
        assert message is not None, "the socket was closed"
        heard.append(parsed(message))
        if heard[-1]["parent"] == name and heard[-1]["type"] == kind:
            return heard


def finished(work: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine returns; in a thread, since a browser's driver has this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def drained(socket: WebSocketClientConnection) -> None:
    """Read until the socket is closed."""
    while await asyncio.wait_for(socket.read_message(), PATIENCE) is not None:
        pass


async def states_told(socket: WebSocketClientConnection) -> dict[str, Any]:
    """The state of every widget, as the kernel tells it to a page."""
    comm = uuid4().hex
    target = {"comm_id": comm, "target_name": "jupyter.widget.control", "data": {}}
    _, message = newer("comm_open", target, metadata={"version": "1.0.0"})
    await socket.write_message(message, binary=True)
    asked = {"comm_id": comm, "data": {"method": "request_states"}}
    name, message = newer("comm_msg", asked)
    await socket.write_message(message, binary=True)
    heard = await heard_until(socket, name, "comm_msg")
    states: dict[str, Any] = heard[-1]["content"]["data"]["states"]
    return states


async def is_alive(visitor: Visitor) -> bool:
    """Whether the visitor's kernel still answers."""
    async with visitor.connected() as socket:
        name, message = newer("kernel_info_request", {})
        await socket.write_message(message, binary=True)
        return bool(await heard_until(socket, name, "kernel_info_reply"))
