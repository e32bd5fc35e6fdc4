"""The HTTP server: slow connections end, and none takes the room of the others.

A connection costs an open file. When as many are open as the server allows, the oldest
is closed for the newest: answers take less time than it takes to get there.
"""

from __future__ import annotations

import resource
import socket
from typing import Any

from tornado.httpserver import HTTPServer
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
        self._open: dict[IOStream, None] = {}
        """The oldest first, without those that became sockets of kernels."""

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Serve a connection; where there is no room, the oldest one gives its own."""
        self._open[stream] = None
        if len(self._open) > self.max_connections:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.close()
        _drop_unread(stream.socket)
        super().handle_stream(stream, address)

    def on_close(self, server_conn: Any) -> None:  # noqa: ANN401 - tornado has no type
        """Forget a connection."""
        self._open.pop(server_conn.stream, None)
        super().on_close(server_conn)


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
