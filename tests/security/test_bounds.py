"""What one visitor, one network or a slow client can take from the others."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

from planner.app.voila import connections
from planner.app.voila.access import Visitors, is_for_a_page, trusted_networks
from planner.app.voila.app import App
from planner.app.voila.connections import BoundedServer
from planner.app.voila.sessions import Sessions
from planner.app.voila.visits import Session
from planner.errors import PlannerError
from tests.security.client import PATIENCE, ask, finished, is_alive
from tests.security.server import Served, served

pytestmark = pytest.mark.server

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
BROKEN = (
    dict.fromkeys(UPGRADE, ""),
    UPGRADE | {"Connection": "close"},
    UPGRADE | {"Sec-WebSocket-Version": "99"},
    UPGRADE | {"Sec-WebSocket-Key": ""},
    UPGRADE | {"Origin": "https://evil.example"},
)
HANDSHAKES = 400
LEAK_BYTES = 4 << 20


def resident_bytes(pid: int) -> int:
    """The memory that a process has."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def test_broken_handshakes_leave_nothing(app, visitor) -> None:
    """Each kept 14 to 52 KiB for good; a later handshake opens the same session.

    All of them would keep 11 MiB at least.
    """

    def send(number: int, session: str) -> int:
        path = f"/api/kernels/{visitor.kernel_id}/channels?session_id={session}"
        return ask(app.address, path, headers=BROKEN[number % len(BROKEN)]).status

    statuses = [send(number, uuid4().hex) for number in range(len(BROKEN))]
    for number in range(50):
        send(number, uuid4().hex)
    before = resident_bytes(app.process.pid)
    for number in range(HANDSHAKES):
        send(number, uuid4().hex)
        send(number, "s")

    assert statuses == [400, 400, 426, 400, 403]
    assert resident_bytes(app.process.pid) - before < LEAK_BYTES
    assert visitor.handshake() == 101


@pytest.mark.parametrize(
    "offer",
    [
        "permessage-deflate; server_max_window_bits=99",
        "permessage-deflate; bogus",
        "permessage-deflate, permessage-deflate; =",
    ],
)
def test_an_odd_offer_of_compression_is_declined(visitor, offer) -> None:
    """It answered 500, and so did every later handshake of the session."""
    assert visitor.handshake(headers={"Sec-WebSocket-Extensions": offer}) == 101
    assert visitor.handshake() == 101
    assert finished(is_alive(visitor))


@pytest.mark.parametrize("session", ["x" * 65, "x" * 2_000, "a%20b", "a%2Fb"])
def test_an_odd_name_of_a_session_is_refused(app, visitor, session) -> None:
    """ZeroMQ fails on it when the socket is open already."""
    path = f"/api/kernels/{visitor.kernel_id}/channels?session_id={session}"

    assert ask(app.address, path, headers=UPGRADE).status == 400
    assert visitor.handshake() == 101


def test_a_kernel_has_few_sockets(visitor) -> None:
    """The oldest are closed; the page's own newest one works."""

    async def run() -> list[bool]:
        opened = [visitor.connected() for _ in range(5)]
        sockets = [await one.__aenter__() for one in opened]
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                while await sockets[0].read_message() is not None:
                    pass
                while await sockets[1].read_message() is not None:
                    pass
        is_closed = [one.close_code is not None for one in sockets]
        for one in opened:
            await one.__aexit__(None, None, None)
        return is_closed

    assert finished(run()) == [True, True, False, False, False]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Served]:
    """An app with four places, behind a proxy on 127.0.0.9."""
    flags = ("--pool=2", "--max-sessions=4", "--trusted-proxy=127.0.0.9")
    with served(tmp_path, *flags) as running:
        yield running


def status_of(app: Served, source: str, **headers: str) -> int:
    """Ask for the page from an address of this machine."""
    place = urlsplit(app.address)
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    with socket.create_connection(
        (place.hostname, place.port), timeout=PATIENCE, source_address=(source, 0)
    ) as one:
        head = ["GET / HTTP/1.0", "Host: 127.0.0.1", *lines, "", ""]
        one.sendall("\r\n".join(head).encode())
        return int(one.recv(65_536).split()[1])


def test_one_network_gets_half_of_the_places(small) -> None:
    """The other half is for others; a page that another site loads takes none."""
    images = [status_of(small, "127.0.0.1", Sec_Fetch_Dest="image") for _ in range(6)]
    own = [status_of(small, "127.0.0.1") for _ in range(4)]
    claimed = [status_of(small, "127.0.0.1", X_Real_IP="192.0.2.7") for _ in range(2)]
    by_proxy = status_of(small, "127.0.0.9", X_Real_IP="192.0.2.7")
    other = status_of(small, "127.0.0.2")
    full = status_of(small, "127.0.0.3")

    assert set(images) == {403}
    assert own == [200, 200, 429, 429]
    assert claimed == [429, 429]
    assert (by_proxy, other, full) == (200, 200, 503)


def request(headers: dict[str, str]) -> HTTPServerRequest:
    """A request for the page."""
    return HTTPServerRequest(
        start_line=RequestStartLine("GET", "/", "HTTP/1.1"),
        headers=HTTPHeaders(headers | {"Host": "127.0.0.1"}),
    )


def test_networks_are_told_apart_by_what_the_proxy_says() -> None:
    """By IPv6 networks, by no word of an address that is not trusted."""

    def named(peer: str, real: str = "") -> str:
        asked = request({"X-Real-IP": real} if real else {})
        asked.remote_ip = peer
        return visitors.name(asked)

    visitors = Visitors(trusted=trusted_networks(("10.0.0.0/8", "::1")))
    assert named("10.1.2.3", "192.0.2.1") == named("192.0.2.1")
    assert named("::ffff:10.1.2.3", "192.0.2.1") == named("192.0.2.1")
    assert named("192.0.2.9", "192.0.2.1") == named("192.0.2.9")
    assert named("10.1.2.3", "nonsense") == named("10.1.2.3")
    assert named("2001:db8::1") == named("2001:db8::ffff:2")
    assert named("2001:db8::1") != named("2001:db8:0:1::1")
    assert "192.0" not in named("192.0.2.1")
    with pytest.raises(PlannerError, match="--trusted-proxy"):
        trusted_networks(("proxy.example",))


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({}, True),
        ({"Sec-Fetch-Dest": "document"}, True),
        ({"Sec-Fetch-Dest": "image"}, False),
        ({"Sec-Fetch-Dest": "empty"}, False),
        ({"Sec-Fetch-Dest": "document", "Sec-Purpose": "prefetch;prerender"}, False),
        ({"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "same-origin"}, True),
    ],
)
def test_a_page_is_for_somebody_who_sees_it(headers, passes) -> None:
    """In a frame of another site only where that is allowed."""
    asked = request(headers)

    assert passes == is_for_a_page(asked, may_be_framed=False)
    is_framed = headers.get("Sec-Fetch-Dest") == "iframe"
    assert (passes or is_framed) == is_for_a_page(asked, may_be_framed=True)


class _Health(RequestHandler):
    def get(self) -> None:
        self.finish("ok")

    post = get


def _dropped(server_class: type[HTTPServer], number: int, seconds: float) -> int:
    """Open slow connections; how many end by then, while another one is answered."""

    async def run() -> int:
        server = server_class(Application([("/healthz", _Health)]))
        if isinstance(server, BoundedServer):
            server.max_connections = number // 2
        listening, port = bind_unused_port()
        server.add_socket(listening)
        slow = []
        for each in range(number):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(
                b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: "
                if each % 2
                else b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na"
            )
            slow.append((reader, writer))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert (await reader.read()).endswith(b"ok")
        ended = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for one, _ in slow:
                    with suppress(ConnectionError):
                        await one.read()
                    ended += 1
        writers = [writer, *(each for _, each in slow)]
        for each in writers:
            each.close()
        closing = (each.wait_closed() for each in writers)
        await asyncio.gather(*closing, return_exceptions=True)
        server.stop()
        await server.close_all_connections()
        return ended

    return finished(run())


def test_slow_connections_are_dropped_and_hold_nobody_up(monkeypatch) -> None:
    """More of them than the server allows: the next request is answered all the same.

    Those that are allowed stay until their time is up.
    """
    ends = {}
    for limit, seconds in ((3600, 1), (0.4, PATIENCE)):
        for name in ("IDLE_SECONDS", "BODY_SECONDS"):
            monkeypatch.setattr(connections, name, limit)
        ends[limit] = _dropped(BoundedServer, 60, seconds)

    assert ends[3600] <= 31
    assert ends[0.4] == 60
    assert _dropped(HTTPServer, 6, 1) == 0  # the control: tornado's waits an hour


def test_few_open_files_keep_the_monitor_alive(tmp_path) -> None:
    """As many slow connections as the process may have files."""
    program = ("sh", "-c", 'ulimit -n 100 && exec "$@"', "sh")
    flags = ("--pool=1", "--max-sessions=2")
    with served(tmp_path, *flags, before=program) as running, ExitStack() as open_ones:
        place = urlsplit(running.address)
        for _ in range(110):  # fewer than may wait to be accepted
            one = socket.create_connection(
                (place.hostname, place.port), timeout=PATIENCE
            )
            open_ones.enter_context(one)
            with suppress(OSError):
                one.sendall(b"GET / HTTP/1.1\r\nX: ")
        statuses = {ask(running.address, "/healthz").status for _ in range(5)}

    assert statuses == {200}
    assert "OSError" not in running.written()


def test_a_session_that_ends_meanwhile_does_not_stop_the_round(monkeypatch) -> None:
    """Nor does a kernel that cannot be looked after; every other one is."""
    sessions = Sessions()
    sessions._sessions = {
        name: Session(began=0.0, alone_since=0.0) for name in ("a", "b", "c", "d")
    }
    sessions._kernels = dict.fromkeys("xyz")
    ended: list[str] = []
    looked: list[str] = []

    async def end(name: str) -> None:
        ended.append(name)
        sessions._sessions.pop(name)
        sessions._sessions.pop("b", None)  # it leaves while another one is ended
        if name == "c":
            raise RuntimeError("no more processes")

    async def look(name: str) -> None:
        looked.append(name)
        if name == "y":
            raise OSError("no more files")

    monkeypatch.setattr(sessions, "end", end)
    monkeypatch.setattr(sessions, "_forget_if_dead", look)
    monkeypatch.setattr(sessions, "_work", lambda: looked.append("ahead"))
    asyncio.run(sessions._tend())

    assert ended == ["a", "c", "d"]
    assert looked == ["x", "y", "z", "ahead"]


def test_a_page_that_is_idle_gives_its_place_back_whatever_the_clock_says(
    monkeypatch,
) -> None:
    """An hour of the clock that only goes on; a clock that is set ends no page."""
    sessions = Sessions(idle_seconds=3600)
    session = Session(began=0.0, alone_since=None, active_at=100.0)
    monkeypatch.setattr("time.time", lambda: 4_000_000_000.0)

    assert not sessions.is_lost(session, 3_699.0)
    assert sessions.is_lost(session, 3_700.0)
    assert not Sessions().is_lost(session, 1e9)


def test_a_start_that_fails_leaves_nothing(monkeypatch, tmp_path) -> None:
    """Neither its task nor its connection file; the visitor learns that it failed."""
    spec = {"argv": [str(tmp_path / "missing")], "display_name": "x", "language": "x"}
    folder = tmp_path / "kernels" / "broken"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(spec))
    specs = KernelSpecManager(kernel_dirs=[str(folder.parent)])
    sessions = Sessions(kernel_spec_manager=specs, connection_dir=str(tmp_path))
    failed: list[bool] = []

    async def draw() -> None:
        try:
            await sessions.start_kernel(kernel_name="broken")
        except FileNotFoundError:
            failed.append(bool(sessions._pending_kernels))
            raise

    monkeypatch.setattr(sessions, "_draw", draw)
    monkeypatch.setattr(sessions, "_work", lambda: None)
    for _start in range(3):
        asyncio.run(sessions._start())

    assert failed == [True, True, True]
    assert sessions._pending_kernels == {}
    assert [*tmp_path.glob("kernel-*.json")] == []


def test_kernels_leave_no_loggers() -> None:
    """Python keeps every logger that was ever named; theirs is the app's."""
    app = App()
    sessions = Sessions(parent=app)
    first = sessions.kernel_manager_factory(parent=sessions)
    shared = {id(first.event_logger)}
    named = {*logging.Logger.manager.loggerDict}

    others = [sessions.kernel_manager_factory(parent=sessions) for _kernel in "ab"]

    assert {id(kernel.event_logger) for kernel in others} == shared
    assert {*logging.Logger.manager.loggerDict} == named
