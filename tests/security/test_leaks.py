"""What stays open in the server after a kernel or a page that ended too early."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.app_visits import eventually, kernels
from tests.security.client import Visitor, drained, finished, heard_until, newer
from tests.security.server import Served, served
from tests.ui.servers import ROOT, health

pytestmark = pytest.mark.server

_ROUNDS = 3
_PATIENCE_SECONDS = 120.0
_ASKED = (
    "GET /api/kernels/{}/channels?session_id=s HTTP/1.1\r\nHost: {}\r\n"
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)

_COUNTER = """
import gc, os, signal, time
from pathlib import Path

def count(*_):
    gc.collect()
    held = [(type(one).__name__, one) for one in gc.get_objects()]
    connections = [one for name, one in held if name.endswith("Connection")
        and hasattr(one, "kernel_info_timeout")]
    timers = [one for name, one in held if name == "TimerHandle"
        and one.when() > time.monotonic() + 90]
    Path(os.environ["COUNT"]).write_text(f"{len(connections)} {len(timers)}")

signal.signal(signal.SIGUSR1, count)
"""
"""Python runs it in a process of its own before anything else.

A timer that was cancelled keeps what it belonged to until its time has come.
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with one kernel that waits."""
    with served(tmp_path_factory.mktemp("alone"), "--pool=1") as running:
        yield running


def files_at_rest(app: Served, at_most: int = 0) -> int:
    """The server's open files while nobody is there, or the fewest within patience."""
    end = time.monotonic() + _PATIENCE_SECONDS
    fewest = 1 << 20
    while time.monotonic() < end and fewest > at_most:
        told = health(app.address)
        if told["sessions"] == 0 and told["pool"] == 1:
            found = len(list(Path(f"/proc/{app.process.pid}/fd").iterdir()))
            fewest = min(fewest, found)
            if not at_most and end - time.monotonic() < _PATIENCE_SECONDS - 2:
                break
        time.sleep(0.1)
    return fewest


def _kill_while_connected(visitor: Visitor, kernel: int) -> None:
    """The page answers the server's close, as browsers do, while the kernel ends."""

    async def run() -> None:
        async with visitor.connected() as opened:
            os.kill(kernel, signal.SIGKILL)
            await drained(opened)

    with suppress(AssertionError, OSError):
        finished(run())


def _leave_while_asked(visitor: Visitor, kernel: int) -> None:
    """The kernel sleeps; the page goes away meanwhile, and says so afterwards."""
    os.kill(kernel, signal.SIGSTOP)
    with _handshake(visitor):
        time.sleep(0.3)
    time.sleep(0.2)
    os.kill(kernel, signal.SIGCONT)
    time.sleep(0.5)
    visitor.leave()


def _handshake(visitor: Visitor) -> socket.socket:
    place = urlsplit(visitor.address)
    opened = socket.create_connection((place.hostname, place.port))
    opened.sendall(_ASKED.format(visitor.kernel_id, place.netloc).encode())
    return opened


@pytest.mark.parametrize("end", [_kill_while_connected, _leave_while_asked])
def test_an_early_end_leaves_no_file_open(
    alone: Served, end: Callable[[Visitor, int], None]
) -> None:
    """Each left sockets to its kernel, with a file each, for the server's life."""
    before = files_at_rest(alone)
    for _ in range(_ROUNDS):
        files_at_rest(alone, before)
        (kernel,) = kernels(alone.process.pid)
        end(Visitor.at(alone.address), kernel)

    assert files_at_rest(alone, before) <= before


def test_no_connection_and_no_timer_outlives_a_page(tmp_path: Path) -> None:
    """Jupyter's timer kept each connection for a minute, tornado's for four hours."""
    (tmp_path / "sitecustomize.py").write_text(_COUNTER)
    path, counted = f"{tmp_path}{os.pathsep}{ROOT}", tmp_path / "count"

    async def stay(visitor: Visitor) -> list[int]:
        async with visitor.connected() as socket:
            name, message = newer("kernel_info_request", {})
            await socket.write_message(message, binary=True)
            await heard_until(socket, name, "kernel_info_reply")
            return held(app, counted)

    with served(tmp_path, "--pool=1", PYTHONPATH=path, COUNT=str(counted)) as app:
        _, timers = held(app, counted)
        for _ in range(_ROUNDS):
            visitor = Visitor.at(app.address)
            connections, _ = finished(stay(visitor))
            visitor.leave()
            assert connections >= 1

        assert eventually(lambda: held(app, counted) == [0, timers])


def held(app: Served, counted: Path) -> list[int]:
    """How many connections to kernels, and far timers, the server's process has."""
    counted.unlink(missing_ok=True)
    app.process.send_signal(signal.SIGUSR1)
    assert eventually(lambda: counted.exists() and counted.read_text() != "")
    return [int(word) for word in counted.read_text().split()]
