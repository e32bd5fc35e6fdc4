"""What a client that asks for files, and reads none, takes from the server."""

from __future__ import annotations

import asyncio
import fcntl
import re
import socket
import struct
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from random import Random
from urllib.parse import urlsplit

import pytest
from tornado.testing import bind_unused_port
from tornado.web import Application

from planner.app.voila import connections
from planner.app.voila.connections import BoundedServer
from planner.app.voila.files import AssetHandler, Assets
from tests.security.client import PATIENCE, Visitor, ask, finished
from tests.security.server import served
from tests.security.test_bounds import resident_bytes

pytestmark = pytest.mark.server

CLIENTS = 40
MOST_BYTES = 16 << 20
SIZE_BYTES = 16 << 20
PIECE_BYTES = 64 << 10
HEAD_BYTES = 2 << 10
Address = tuple[str, int]


def asked(address: Address, path: str, encoding: str = "") -> socket.socket:
    """A connection that asked for a file, and has room for little of it."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.settimeout(PATIENCE)
    one.connect(address)
    one.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{encoding}\r\n".encode())
    return one


def test_a_file_that_nobody_reads_holds_little_memory(tmp_path) -> None:
    """The page's script has 4.5 MB: each connection held all of it."""
    with served(tmp_path, "--pool=1") as app, ExitStack() as open_ones:
        found = re.search(r"/assets/[0-9a-f]+", Visitor.at(app.address).html)
        assert found is not None
        path = f"{found[0]}/page/bundle.js"
        whole = ask(app.address, path).body  # it is kept from now on
        place = urlsplit(app.address)
        before = resident_bytes(app.process.pid)
        for _ in range(CLIENTS):
            one = asked((str(place.hostname), place.port or 0), path)
            open_ones.enter_context(one)
            assert one.recv(8) == b"HTTP/1.1"
        grown = resident_bytes(app.process.pid) - before
        status = ask(app.address, "/healthz").status

    assert len(whole) > 4_000_000
    assert grown < MOST_BYTES
    assert status == 200


def unsent_bytes(one: socket.socket) -> int:
    """What the system holds of an answer."""
    answer = fcntl.ioctl(one.fileno(), termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


@asynccontextmanager
async def serving(assets: Assets) -> AsyncIterator[tuple[BoundedServer, Address]]:
    """Serve these files, in this process."""
    table = [(r"/assets/(\w+)/(.+)", AssetHandler, {"assets": assets})]
    server = BoundedServer(Application(table))
    listening, port = bind_unused_port()
    server.add_socket(listening)
    yield server, ("127.0.0.1", port)
    server.stop()
    await server.close_all_connections()


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("large.bin", ""),
        ("large.js", ""),
        ("large.js", "Accept-Encoding: gzip\r\n"),
    ],
)
def test_a_file_that_nobody_reads_is_given_up(
    name, encoding, monkeypatch, caplog
) -> None:
    """By the time-out of unread answers, and till then few pieces wait.

    One in the server, the others in the system, which would take megabytes. That a
    client went is no failure to log.
    """
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 1)
    assets = Assets(texts={name: Random(1).randbytes(SIZE_BYTES)})
    waiting, sent = [0], [0]

    async def run() -> None:
        async with serving(assets) as (server, address):
            path = f"/assets/{assets.version}/{name}"
            client = await asyncio.to_thread(asked, address, path, encoding)
            async with asyncio.timeout(PATIENCE):
                while not server._open:
                    await asyncio.sleep(0.01)
                (stream,) = server._open
                while not stream.closed():
                    waiting.append(len(stream._write_buffer))
                    sent.append(unsent_bytes(stream.socket))
                    await asyncio.sleep(0.01)
            client.close()

    finished(run())
    assert 0 < max(waiting) <= PIECE_BYTES + HEAD_BYTES
    assert 0 < max(sent) <= 4 * PIECE_BYTES
    assert caplog.messages == []


def test_who_leaves_at_once_is_no_failure(caplog) -> None:
    """The connection is reset before, while or after the file is looked up."""
    assets = Assets(texts={"large.js": bytes(SIZE_BYTES)})

    async def run() -> bytes:
        async with serving(assets) as (_, address):
            path = f"/assets/{assets.version}/large.js"
            for _ in range(CLIENTS):
                one = await asyncio.to_thread(asked, address, path)
                await asyncio.sleep(0)
                one.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                one.close()
            reader, writer = await asyncio.open_connection(*address)
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            return answer

    assert finished(run()).endswith(bytes(SIZE_BYTES))
    assert caplog.messages == []


def test_a_file_is_unpacked_once(tmp_path) -> None:
    """For all who cannot unpack it; one that is made here is there already."""
    (tmp_path / "a.js").write_text("one();\n" * 1_000)
    (tmp_path / "b.woff2").write_bytes(b"font")
    assets = Assets(texts={"page/c.js": b"two();\n"})
    assets.add_folder("page", tmp_path)

    assert assets.unpacked("page/a.js") == (tmp_path / "a.js").read_bytes()
    assert assets.unpacked("page/a.js") is assets.unpacked("page/a.js")
    assert assets.unpacked("page/b.woff2") is assets.get("page/b.woff2").body
    assert assets.unpacked("page/c.js") is assets.texts["page/c.js"]
    assert len(assets.get("page/a.js").body) < 1_000
    with pytest.raises(KeyError):
        assets.unpacked("page/none.js")
