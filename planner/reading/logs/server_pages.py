"""The pages of one running server, asked over HTTP.

Read only, without redirects. A server that is silent, that sends byte by byte, or that
sends without an end is left: all of its pages together have one deadline.
"""

from __future__ import annotations

import io
import json
import re
import time
from typing import Any
from urllib.parse import urlsplit

from planner.errors import PlannerError

_PLACES = re.compile(
    r"/(?:v1(?:/.*)?|metrics|version|health|docs|server_info|ping|load)?/?\Z"
)
"""Pages of vLLM's server, which may be in the address that was copied."""
_SILENT_SECONDS = 4.0
"""Without an answer, or without more of it."""
_MOST_SECONDS = 20.0
"""For all pages together."""
_MOST_BYTES = 8 << 20
"""Of one page; the metrics of vLLM have some 200 KiB."""
_OK = 200
_REDIRECTS = range(300, 400)


class _TooLong(Exception):  # noqa: N818 - as it reads where it is caught
    """The deadline has passed."""


class _Answer(io.RawIOBase):
    """What a socket receives until a deadline."""

    def __init__(self, socket: Any, deadline: float) -> None:  # noqa: ANN401 - TLS too
        super().__init__()
        self._socket = socket
        self._received = socket.makefile("rb", buffering=0)
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any buffer
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise _TooLong
        self._socket.settimeout(min(left, _SILENT_SECONDS))
        try:
            return int(self._received.readinto(buffer) or 0)
        except TimeoutError:
            if left <= _SILENT_SECONDS:
                raise _TooLong from None
            raise

    def close(self) -> None:
        self._received.close()
        super().close()


class _Socket:
    """A socket whose answer has a deadline, as `http.client` uses one."""

    def __init__(self, socket: Any, deadline: float) -> None:  # noqa: ANN401 - TLS too
        self._socket = socket
        self._deadline = deadline
        self.sendall = socket.sendall
        self.close = socket.close

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return what is received, as a file."""
        return io.BufferedReader(_Answer(self._socket, self._deadline))


class Pages:
    """The pages of one server."""

    def __init__(self, address: str) -> None:
        """Take the address apart.

        Raises:
            PlannerError: for a port that cannot be one.
        """
        written = address.strip()
        url = urlsplit(written if "://" in written else f"http://{written}")
        try:
            self.host, self.port = url.hostname or "", url.port
        except ValueError:
            raise PlannerError(
                f"{address!r} has no port between 1 and 65535."
            ) from None
        self.scheme = url.scheme
        self.base = _PLACES.sub("", url.path)
        self.shown = f"{self.scheme}://{url.netloc}{self.base}"
        self.notes: list[str] = []
        self._deadline = time.monotonic() + _MOST_SECONDS

    def text(self, path: str) -> str:
        """Return a page; empty where the server has none, or does not show it.

        Raises:
            PlannerError: where nothing answers, or not to the end, or another place is
                named.
        """
        from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415 - slow

        kind = HTTPSConnection if self.scheme == "https" else HTTPConnection
        connection: Any = kind(self.host, self.port, timeout=_SILENT_SECONDS)
        try:
            connection.connect()
            connection.sock = _Socket(connection.sock, self._deadline)
            connection.request("GET", self.base + path, headers={"Accept": "*/*"})
            answer = connection.getresponse()
            body = answer.read(_MOST_BYTES + 1)
        except _TooLong:
            raise PlannerError(
                f"{self.shown} has not sent its pages in {_MOST_SECONDS:.0f} seconds, "
                f"{path} among them. Give the text of /metrics, the log or the command "
                "instead."
            ) from None
        except Exception as error:  # noqa: BLE001 - http.client is imported late
            raise PlannerError(
                f"{self.shown} does not answer ({error}). Is vLLM running there, and "
                "is its port open to this machine?"
            ) from None
        finally:
            connection.close()
        return self._shown(path, answer, body)

    def _shown(self, path: str, answer: Any, body: bytes) -> str:  # noqa: ANN401
        if answer.status in _REDIRECTS:
            raise PlannerError(
                f"{self.shown} refers to {str(answer.getheader('Location'))[:200]}, "
                "which was not asked: give that address if it is yours."
            )
        if answer.status in (401, 403):
            self.notes.append(f"{path} asks for a key, and was left out.")
        if answer.status != _OK:
            return ""
        if len(body) > _MOST_BYTES:
            raise PlannerError(
                f"{path} of {self.shown} is larger than {_MOST_BYTES >> 20} MiB, the "
                "most that is read. Give the address of vLLM itself."
            )
        return body.decode(errors="replace")

    def json(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        """Return a page of JSON; None where there is none."""
        text = self.text(path)
        try:
            return json.loads(text or "null")
        except (ValueError, RecursionError):
            return None
