"""The HTTP server: slow connections end, and none takes the room of the others.

A connection costs an open file. When as many are open as the server allows, the one
that has waited longest without sending a whole request is closed for the newest.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakSet

from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import IOStream

IDLE_SECONDS = 20
"""From the start of a connection, or its last answer, to the end of a head."""
BODY_SECONDS = 10
UNREAD_SECONDS = 30
"""How long a client may leave an answer unread."""
BODY_BYTES = 64 * 1024
HEAD_BYTES = 32 * 1024
_OPEN_FILES = 16_384
_SHARE = 4
"""Of the open files: kernels' sockets and files take the rest."""
_FEWEST = 16


class BoundedServer(HTTPServer):
    """An HTTP server with time-outs and a limit on connections."""

    def initialize(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - tornado's
        """Set the bounds, whatever the caller sets."""
        super().initialize(
            *args,
            **options
            | {
                "xheaders": False,
                "idle_connection_timeout": IDLE_SECONDS,
                "body_timeout": BODY_SECONDS,
                "max_body_size": BODY_BYTES,
                "max_header_size": HEAD_BYTES,
            },
        )
        self.max_connections = _max_connections()
        self._open: WeakSet[IOStream] = WeakSet()
        self._waiting: dict[IOStream, None] = {}
        """Connections without a whole request; the first has waited longest."""

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Serve a connection, or close it where there is no room."""
        if len(self._open) >= self.max_connections and not self._close_one():
            stream.close()
            return
        self._open.add(stream)
        self._waiting[stream] = None  # many are accepted before the first is read
        _drop_unread(stream.socket)
        super().handle_stream(stream, address)

    def start_request(
        self,
        server_conn: Any,  # noqa: ANN401 - tornado has no type
        request_conn: HTTPConnection,
    ) -> HTTPMessageDelegate:
        """Count a connection as waiting until its request is whole."""
        stream: IOStream = server_conn.stream
        self._waiting.pop(stream, None)
        self._waiting[stream] = None
        inner = super().start_request(server_conn, request_conn)
        return _Noticing(inner, lambda: self._waiting.pop(stream, None))

    def on_close(self, server_conn: Any) -> None:  # noqa: ANN401 - tornado has no type
        """Forget a connection."""
        self._waiting.pop(server_conn.stream, None)
        super().on_close(server_conn)

    def _close_one(self) -> bool:
        """Make room for a connection; return whether there is any."""
        if sum(not stream.closed() for stream in self._open) < self.max_connections:
            return True  # some ended, and are not collected yet
        if not self._waiting:
            return False
        longest = next(iter(self._waiting))
        self._waiting.pop(longest)
        longest.close()
        return True


class _Noticing(HTTPMessageDelegate):
    """Passes a request on, and notices when all of it has arrived."""

    def __init__(self, inner: HTTPMessageDelegate, is_whole: Callable[[], Any]) -> None:
        self._inner = inner
        self._is_whole = is_whole

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        """Pass the head on."""
        return self._inner.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Pass a part of the body on."""
        return self._inner.data_received(chunk)

    def finish(self) -> None:
        """Pass the end on."""
        self._is_whole()
        self._inner.finish()

    def on_connection_close(self) -> None:
        """Pass on that the client went away."""
        self._inner.on_connection_close()


def _drop_unread(client: socket.socket) -> None:
    """Let the system end a connection whose client reads nothing, where it can.

    Source: Linux `tcp(7)`, TCP_USER_TIMEOUT.
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None and client.family in (socket.AF_INET, socket.AF_INET6):
        client.setsockopt(socket.IPPROTO_TCP, option, 1000 * UNREAD_SECONDS)


def _max_connections() -> int:
    """Allow this process more files; return how many connections may be open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    files = _OPEN_FILES if soft == resource.RLIM_INFINITY else min(soft, _OPEN_FILES)
    return max(files // _SHARE, _FEWEST)
