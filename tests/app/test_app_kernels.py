"""Kernels of the app: how they start, end, and are found dead."""

import os
import signal
import struct
import sys
import time
from pathlib import Path

import pytest

from tests.app_visits import (
    PATIENCE_SECONDS,
    ask,
    children,
    eventually,
    kernels,
    leave,
    message,
    socket_address,
    visit,
)
from tests.ui.servers import Served, health, served

pytest.importorskip("voila")
pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="forks kernels"),
]


@pytest.fixture(scope="module")
def app(tmp_path_factory) -> Served:
    """A published app."""
    folder = tmp_path_factory.mktemp("app")
    with served(folder, "--published", "--pool=1", "--max-sessions=8") as running:
        yield running


@pytest.fixture(autouse=True)
def _nobody_is_there(app) -> None:
    """Each test finds one page drawn, and no other kernel."""
    assert eventually(
        lambda: health(app.address)["pool"] == 1 and len(kernels(app.pid)) == 1
    )


def connect(app: Served, kernel: str, **options):
    """Open a page's socket."""
    from websockets.sync.client import connect

    place = socket_address(app.address, kernel)
    return connect(place, proxy=None, max_size=None, **options)


def answer_of(socket) -> str:
    """Ask the kernel what it is, and return what it says."""
    socket.send(message("kernel_info_request", {}))
    while True:
        heard = socket.recv(timeout=PATIENCE_SECONDS)
        if '"kernel_info_reply"' in heard:
            return heard


def end_of(socket) -> int:
    """Listen until the server closes the socket, and return its code."""
    from websockets.exceptions import ConnectionClosed

    try:
        while True:
            socket.recv(timeout=PATIENCE_SECONDS)
    except ConnectionClosed as closed:
        return closed.rcvd.code


def test_a_visitor_takes_the_kernel_that_waits(app) -> None:
    """No process is started before the page is there."""
    (waiting,) = kernels(app.pid)
    kernel = visit(app.address)
    during = kernels(app.pid)
    leave(app.address, kernel)

    assert waiting in during
    assert eventually(lambda: waiting not in kernels(app.pid))


def test_a_kernel_that_is_killed_gives_its_place_back(app) -> None:
    """Nobody restarts it; its page hears that it is gone."""
    (waiting,) = kernels(app.pid)
    kernel = visit(app.address)
    with connect(app, kernel) as socket:
        os.kill(waiting, signal.SIGKILL)
        code = end_of(socket)

    assert code == 1001
    assert ask(app.address, f"api/kernels/{kernel}").status == 404
    assert eventually(lambda: health(app.address)["sessions"] == 0)


def test_a_waiting_kernel_that_is_killed_is_replaced(app) -> None:
    """The next visitor gets a page all the same."""
    (waiting,) = kernels(app.pid)
    os.kill(waiting, signal.SIGKILL)
    assert eventually(lambda: waiting not in kernels(app.pid))
    kernel = visit(app.address)

    assert ask(app.address, f"api/kernels/{kernel}").status == 200
    leave(app.address, kernel)


def test_a_dead_fork_server_is_replaced_and_its_kernels_are_gone(app) -> None:
    """They end with it; visitors are served by another."""
    (waiting,) = kernels(app.pid)
    kernel = visit(app.address)
    (fork_server,) = children(app.pid) - kernels(app.pid)
    os.kill(fork_server, signal.SIGKILL)

    assert eventually(lambda: fork_server not in children(app.pid))
    assert eventually(lambda: waiting not in children(app.pid))
    assert eventually(lambda: ask(app.address, f"api/kernels/{kernel}").status == 404)
    assert eventually(lambda: health(app.address)["pool"] == 1)
    assert leave(app.address, visit(app.address)) == 204


def test_a_thousand_wrong_messages_change_nothing(app) -> None:
    """Noise of every kind; the kernel then answers as before."""
    kernel = visit(app.address)
    noise = [
        b"",
        "{}",
        "[]",
        "not json",
        b"\xff" * 40,
        struct.pack("<Q", 1 << 62) + b"x" * 30,
        message("execute_request", {"code": "1/0"}),
        message("comm_msg", {"comm_id": "none", "data": 5}),
        message("comm_open", {"comm_id": 1, "target_name": {}}),
        message("kernel_info_request", {}, channel="none"),
    ]
    before = len(app.log.read_text().splitlines())
    with connect(app, kernel) as socket:
        for number in range(1000):
            socket.send(noise[number % len(noise)])
        time.sleep(1)  # what was too much is forgotten
        heard = answer_of(socket)
    lines = len(app.log.read_text().splitlines()) - before
    leave(app.address, kernel)

    assert '"status": "ok"' in heard
    assert lines < 50
    assert health(app.address)["status"] == "ok"


def test_code_sent_over_the_socket_is_not_run(app, tmp_path) -> None:
    """On no channel."""
    kernel = visit(app.address)
    proof = tmp_path / "proof"
    code = f"open({str(proof)!r}, 'w').close()"
    content = {"code": code, "silent": False, "user_expressions": {"x": code}}
    with connect(app, kernel) as socket:
        for channel in ("shell", "control", "stdin", "iopub"):
            socket.send(message("execute_request", content, channel))
        answer_of(socket)
    leave(app.address, kernel)

    assert not proof.exists()


def test_a_message_that_is_too_large_ends_its_own_connection_only(app) -> None:
    """The kernel waits for its page to come back."""
    from planner.app.voila.sockets import MESSAGE_BYTES

    kernel = visit(app.address)
    with connect(app, kernel) as socket:
        socket.send("x" * (MESSAGE_BYTES + 1))
        code = end_of(socket)
    with connect(app, kernel) as again:
        heard = answer_of(again)
    leave(app.address, kernel)

    assert code == 1009
    assert '"status": "ok"' in heard


def test_a_page_that_lost_its_network_gets_the_answer_that_it_missed(app) -> None:
    """The kernel answers while nobody listens; the same session comes back."""
    from websockets.sync.client import connect as connect_to

    (kernel_process,) = kernels(app.pid)
    place = socket_address(app.address, kernel := visit(app.address))
    with connect_to(place, proxy=None) as socket:
        answer_of(socket)
        os.kill(kernel_process, signal.SIGSTOP)
        socket.send(message("comm_info_request", {}))
        socket.send(message("kernel_info_request", {}))
        time.sleep(0.5)
    os.kill(kernel_process, signal.SIGCONT)
    with connect_to(place, proxy=None) as again:
        heard = again.recv(timeout=PATIENCE_SECONDS)
        while '"comm_info_reply"' not in heard:
            heard = again.recv(timeout=PATIENCE_SECONDS)
    leave(app.address, kernel)

    assert '"status": "ok"' in heard


def test_a_socket_from_another_site_is_refused(app) -> None:
    """Its Origin is not the app's."""
    from websockets.exceptions import InvalidStatus

    kernel = visit(app.address)
    with pytest.raises(InvalidStatus) as refused:
        connect(app, kernel, origin="http://elsewhere.example")
    leave(app.address, kernel)

    assert refused.value.response.status_code == 403


def test_nothing_is_left_when_the_server_ends(tmp_path) -> None:
    """No process; a page that is open loses its kernel as well."""
    with served(tmp_path, "--pool=1") as running:
        visit(running.address)
        before = children(running.pid)

    assert len(before) >= 2
    assert eventually(lambda: not any(_runs(pid) for pid in before))


def _runs(pid: int) -> bool:
    """Whether a process runs; one that ended may wait to be noticed."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
