"""One visitor asks for more than he takes: his connection ends, and nobody else's."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from planner.app.voila.sockets import MOST_SOCKETS
from planner.app.voila.visits import MOST_KEPT_BYTES, Keeping
from tests.app_visits import eventually
from tests.security.client import PATIENCE, V1, Visitor, ask, finished, is_alive, newer
from tests.security.server import Served, served

pytestmark = pytest.mark.server

_HANDSHAKE = (
    "GET /api/kernels/{}/channels?session_id={} HTTP/1.1\r\nHost: {}\r\n"
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    f"Sec-WebSocket-Protocol: {V1}\r\n\r\n"
)
_FILES_OF_A_SOCKET = 1 + 4 * 2
"""Its own, and two for each of the four that Jupyter opens to the kernel."""
PONG = bytes((0x8A, 0x80, 0, 0, 0, 0))


def raw(visitor: Visitor) -> socket.socket:
    """A connection that has asked for the kernel's socket, and reads by itself."""
    at = urlsplit(visitor.address)
    assert at.hostname is not None
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.connect((at.hostname, at.port))
    opened.settimeout(PATIENCE)
    asked = _HANDSHAKE.format(visitor.kernel_id, uuid4().hex, at.netloc)
    opened.sendall(asked.encode())
    return opened


def frame(message: bytes) -> bytes:
    """A binary frame as a client sends it, masked with zeros."""
    size = len(message)
    assert 125 < size < 65_536
    return bytes((0x82, 0x80 | 126)) + size.to_bytes(2, "big") + bytes(4) + message


def test_a_page_that_reads_nothing_is_left(visitor, app, other) -> None:
    """All states again and again, none of them read: a few megabytes wait, not all."""
    comm = uuid4().hex
    with raw(visitor) as unread, raw(other):
        assert unread.recv(12) == b"HTTP/1.1 101"
        control = {
            "comm_id": comm,
            "target_name": "jupyter.widget.control",
            "data": {},
        }
        _, opening = newer("comm_open", control, metadata={"version": "1.0.0"})
        unread.sendall(frame(opening))
        asking = {"comm_id": comm, "data": {"method": "request_states"}}
        for _ in range(100):
            unread.sendall(frame(newer("comm_msg", asking)[1]))

        def is_left() -> bool:
            try:
                unread.sendall(PONG)
            except OSError:
                return True
            return False

        assert eventually(is_left)  # the system itself waits for half a minute
    assert finished(is_alive(other))
    assert "Traceback" not in app.written()
    assert "WebSocketClosedError" not in app.written()


def test_a_kernel_has_few_sockets_though_all_are_asked_for_at_once(
    visitor, app
) -> None:
    """Each would open four more to the kernel, of a thousand that the server may."""

    def files() -> int:
        return len(list(Path(f"/proc/{app.process.pid}/fd").iterdir()))

    before = files()
    many = [raw(visitor) for _ in range(40)]
    answers = [one.recv(12) for one in many]
    at_most = before + MOST_SOCKETS * _FILES_OF_A_SOCKET
    few = eventually(lambda: files() <= at_most)
    for one in many:
        one.close()

    assert {b"101", b"429"} == {one[-3:] for one in answers}
    assert few
    assert eventually(lambda: visitor.handshake() == 101)


def test_little_is_kept_for_a_page_that_may_come_back() -> None:
    """Nine answers of a ninth of the limit are kept; with a tenth, none are."""
    manager, stream = Keeping(), Mock()
    manager._kernels = {"k": Mock()}
    part = b"x" * (MOST_KEPT_BYTES // 9)
    kept = []
    for answers in (9, 10):
        manager.start_buffering("k", "k:page", {"iopub": stream})
        hear = stream.on_recv.call_args.args[0]
        for _ in range(answers):
            hear([part])
        kept.append(manager.get_buffer("k", "k:page"))

    assert kept[0] is not None
    assert kept[0]["buffer"] == [("iopub", [part])] * 9
    assert kept[1] is None


@pytest.fixture
def among_others(tmp_path) -> Iterator[Served]:
    """A server that is started where others may write."""
    for name in ("selectors", "json", "ipykernel_launcher", "plotly", "decimal"):
        (tmp_path / f"{name}.py").write_text(f"open('ran', 'w').write('{name}')")
    with served(tmp_path, "--pool=1") as running:
        yield running


def test_no_module_of_the_folder_that_it_starts_in_is_run(among_others) -> None:
    """Neither by the server's processes nor by a kernel, for a page and a question."""
    visitor = Visitor.at(among_others.address)
    assert finished(is_alive(visitor))
    question = json.dumps({"model": "Qwen/Qwen3-8B", "gpu": "L4"}).encode()
    headers = {"Content-Type": "application/json"}
    told = ask(
        among_others.address, "/api/plan", method="POST", headers=headers, body=question
    )
    visitor.leave()

    assert told.status == 200
    assert not (among_others.folder / "ran").exists()
