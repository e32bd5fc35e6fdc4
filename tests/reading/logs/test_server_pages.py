"""Servers that send slowly, without an end, or too much: each is a sentence."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from planner import PlannerError
from planner.reading.logs import server_pages
from planner.reading.logs.server_pages import Pages

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
ENOUGH_SECONDS = 30.0
"""For a thread to end that has nothing left to do."""


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that answers each connection by a function, until it is left."""
    left: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def one(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.recv(4096)
                answer(connection)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    thread = threading.Thread(target=one, args=(listening.accept()[0],))
                    thread.start()
                    left.append(thread)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        for thread in left:
            thread.join(ENOUGH_SECONDS)
            assert not thread.is_alive(), "the server was not left"


def _dripping(before: bytes, drop: bytes) -> Callable[[socket.socket], None]:
    """Return an answer that never ends, without a pause as long as a silence."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(before)
        stopped = threading.Event()
        while not stopped.wait(0.02):
            connection.sendall(drop)

    return answer


@pytest.mark.parametrize(
    ("before", "drop"),
    [
        (HEAD + b"Content-Length: 8000000\r\n\r\n", b"#"),
        (HEAD + b"\r\n", b"#"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n#\r\n"),
        (HEAD + b"X: ", b"x"),
        (b"", b"H"),
        (b"HTTP/1.0 200 OK\r\n\r\n", b"#"),
    ],
)
def test_a_server_that_drips_is_left(
    before: bytes, drop: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the head, in the page or in its chunks: each byte comes in time."""
    monkeypatch.setattr(server_pages, "_MOST_SECONDS", 0.3)

    with serving(_dripping(before, drop)) as address:
        pages = Pages(address)
        with pytest.raises(PlannerError, match="has not sent its pages in 0 seconds"):
            pages.text("/metrics")
        # One deadline for all: the next page is not waited for.
        with pytest.raises(PlannerError, match="/version among them"):
            pages.text("/version")


def test_a_silent_server_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter than the deadline of all pages."""
    monkeypatch.setattr(server_pages, "_SILENT_SECONDS", 0.1)
    ended = threading.Event()

    with serving(lambda _: ended.wait(ENOUGH_SECONDS) and None) as address:
        with pytest.raises(PlannerError, match=r"does not answer .*timed out"):
            Pages(address).text("/version")
        ended.set()


def test_a_page_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of it is read than the limit and one byte."""
    monkeypatch.setattr(server_pages, "_MOST_BYTES", 1 << 20)

    def flood(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"\r\n")
        while True:
            connection.sendall(b"#" * 65536)

    with (
        serving(flood) as address,
        pytest.raises(PlannerError, match="is larger than 1 MiB"),
    ):
        Pages(address).text("/metrics")


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
def test_a_whole_page_is_read(version: bytes) -> None:
    """Whether the server closes the connection itself or not."""
    body = b"#" * 300_000
    head = version + HEAD[8:] + b"Content-Length: 300000\r\n\r\n"

    with serving(lambda connection: connection.sendall(head + body)) as address:
        assert body.decode() == Pages(address).text("/metrics")
