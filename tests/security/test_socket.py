"""What a page's socket takes: no code, no widgets of the visitor's, no nonsense."""

from __future__ import annotations

import asyncio
import json
import random
import struct
from contextlib import suppress
from uuid import uuid4

import pytest
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError

from tests.security.client import (
    V1,
    Visitor,
    ask,
    drained,
    finished,
    heard_until,
    is_alive,
    newer,
    older,
    states_told,
)

pytestmark = pytest.mark.server

_MOST_WIDGETS = 100
WRITE = "open({path!r}, 'w').write('x')"
REFUSED = [
    "execute_request",
    "input_reply",
    "complete_request",
    "inspect_request",
    "history_request",
    "is_complete_request",
    "debug_request",
    "interrupt_request",
    "shutdown_request",
    "create_subshell_request",
    "delete_subshell_request",
    "list_subshell_request",
    "usage_request",
]


def content(path: str) -> dict[str, object]:
    """What all those messages ask for, in one content."""
    return {
        "code": WRITE.format(path=path),
        "silent": False,
        "store_history": True,
        "user_expressions": {"x": WRITE.format(path=path)},
        "allow_stdin": True,
        "value": "x",
        "cursor_pos": 3,
        "detail_level": 1,
        "hist_access_type": "tail",
        "n": 10,
        "output": True,
        "raw": True,
        "restart": False,
        "type": "request",
        "seq": 1,
        "command": "evaluate",
        "arguments": {"expression": WRITE.format(path=path)},
    }


async def _answered(visitor: Visitor, kind: str, channel: str, path: str) -> set[str]:
    """Types of what the kernel says to a message, in both ways of writing it."""
    said: set[str] = set()
    for protocol, write in ((V1, newer), (None, older)):
        async with visitor.connected(protocol) as socket:
            name, message = write(kind, content(path), channel)
            await socket.write_message(message, binary=isinstance(message, bytes))
            last, message = write("kernel_info_request", {})
            await socket.write_message(message, binary=isinstance(message, bytes))
            heard = await heard_until(socket, last, "kernel_info_reply")
            said |= {one["type"] for one in heard if one["parent"] == name}
    return said


def test_a_legal_message_is_answered(visitor) -> None:
    """The control of all that follows: this socket does reach a kernel."""
    said = finished(_answered(visitor, "comm_info_request", "shell", "/x"))

    assert "comm_info_reply" in said


@pytest.mark.parametrize("channel", ["shell", "control", "stdin", "iopub"])
def test_nothing_can_be_run_or_looked_into(visitor, tmp_path, channel) -> None:
    """No reply, no output, no file; and the kernel lives."""
    path = tmp_path / "written"
    for kind in REFUSED:
        assert finished(_answered(visitor, kind, channel, str(path))) == set(), kind

    assert not path.exists()
    assert finished(is_alive(visitor))


def test_the_page_can_ask_for_its_widgets(visitor) -> None:
    """The control of the next test: the one comm that a page may open."""

    async def run() -> int:
        async with visitor.connected() as socket:
            return len(await states_told(socket))

    assert finished(run()) > 5


@pytest.mark.parametrize(
    "target",
    ["jupyter.widget", "jupyter.widget.version", "matplotlib", "os.system", "", "é"],
)
def test_no_other_comm_can_be_opened(visitor, target) -> None:
    """A page cannot make a widget, such as one that takes files or keeps scripts."""
    state = {
        "_model_module": "@jupyter-widgets/controls",
        "_model_module_version": "2.0.0",
        "_model_name": "FileUploadModel",
        "_view_module": "@jupyter-widgets/controls",
        "_view_module_version": "2.0.0",
        "_view_name": "FileUploadView",
    }

    async def run() -> tuple[int, int, bool]:
        counts = []
        comm = uuid4().hex
        async with visitor.connected() as socket:
            for _ in range(2):
                name, message = newer("comm_info_request", {})
                await socket.write_message(message, binary=True)
                heard = await heard_until(socket, name, "comm_info_reply")
                comms = heard[-1]["content"]["comms"]
                counts.append(len(comms))
                asked = {"comm_id": comm, "target_name": target}
                asked["data"] = {"state": state}
                _, message = newer("comm_open", asked, metadata={"version": "2.1.0"})
                await socket.write_message(message, binary=True)
        return counts[0], counts[1], comm in comms

    before, after, is_there = finished(run())
    assert before == after
    assert not is_there


def test_widgets_take_no_hostile_state(visitor) -> None:
    """Every widget is told nonsense; the kernel lives and answers."""
    hostile: list[object] = [
        None,
        [],
        "x",
        {"method": "update", "state": {"_esm": "alert(1)", "_css": "x", "value": {}}},
        {"method": "update", "state": {"__class__": "x", "_model_name": 5}},
        {"method": "update", "state": None, "buffer_paths": [[["x"]]]},
        {"method": "custom", "content": {"set": "model", "value": "/etc/passwd"}},
        {"method": "custom", "content": {"set": "__class__", "value": None}},
        {"method": "custom", "content": {"set": ["x"], "value": {}}},
        {"method": "custom", "content": {"opened": "?gpu=attached&model=/etc/passwd"}},
        {"method": "custom", "content": {"name": "../../etc/passwd", "click": "x"}},
        {"method": "custom", "content": "x" * 5_000},
        {"method": "__init__"},
    ]

    async def run() -> int:
        async with visitor.connected() as socket:
            states = list(await states_told(socket))[:_MOST_WIDGETS]
            for comm in states:
                for data in hostile:
                    _, message = newer("comm_msg", {"comm_id": comm, "data": data})
                    await socket.write_message(message, binary=True)
                    await asyncio.sleep(0.006)  # fewer than are dropped
        return len(states)

    assert finished(run()) > 5
    assert finished(is_alive(visitor))


def _nonsense(count: int) -> list[str | bytes]:
    """Messages that are none: random bytes, lying offsets, wrong JSON."""
    rng = random.Random(7)
    _, whole = newer("comm_msg", {"comm_id": "x", "data": {}})
    made: list[str | bytes] = [
        b"",
        "",
        b"\xff" * 8,
        b"\xff" * 4096,
        struct.pack("!I", 1 << 31) + bytes(64),
        (1 << 60).to_bytes(8, "little") + whole[8:],
        "null",
        "[" * 60_000,
        '{"a":' * 30_000,
        json.dumps({"channel": "shell", "header": None, "content": None}),
        json.dumps({"channel": ["shell"], "header": {"msg_type": {}}}),
        "\ud7ff" * 100,
    ]
    while len(made) < count:
        damaged = bytearray(whole)
        for _ in range(rng.randrange(1, 8)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        made.append(bytes(damaged[: rng.randrange(len(damaged) + 1)]))
    return made


def test_a_thousand_malformed_messages_disturb_nobody(visitor, other) -> None:
    """Server, the other visitor and even this one's kernel go on answering."""

    async def run() -> int:
        sent = 0
        for protocol in (V1, None):
            async with visitor.connected(protocol) as socket:
                for message in _nonsense(500):
                    is_binary = isinstance(message, bytes)
                    await socket.write_message(message, binary=is_binary)
                    sent += 1
        return sent

    assert finished(run()) == 1000
    assert ask(visitor.address, "/healthz").status == 200
    assert finished(is_alive(other))
    assert finished(is_alive(visitor))


@pytest.mark.parametrize("size", [270_000, 600_000])
def test_a_message_that_is_too_large_closes_the_socket(visitor, other, size) -> None:
    """Its own only."""

    async def run() -> bool:
        _, message = newer("comm_msg", {"comm_id": "x", "data": {"pad": "x" * size}})
        async with visitor.connected() as socket:
            with suppress(WebSocketClosedError):
                await socket.write_message(message, binary=True)
            await drained(socket)
            return socket.close_code is not None

    assert finished(run())
    assert finished(is_alive(other))
    assert finished(is_alive(visitor))


async def _sent(socket: WebSocketClientConnection, messages: list[bytes]) -> None:
    for message in messages:
        await socket.write_message(message, binary=True)


@pytest.mark.parametrize("filling", ["", "x" * 200_000])
def test_a_flood_of_legal_messages_ends_its_connection(visitor, other, filling) -> None:
    """Thousands, short or long; the other kernel answers, and this one afterwards."""

    async def run() -> bool:
        _, message = newer("comm_info_request", {"target_name": filling})
        # A page that never connects is not waited for as long as a flood may take.
        async with visitor.connected() as flooding, other.connected():
            with pytest.raises((WebSocketClosedError, StreamClosedError)):
                await _sent(flooding, [message] * 100_000)
            return await is_alive(other)

    assert finished(run())
    assert finished(is_alive(visitor))


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://127.0.0.1.evil.example", "null", "file://"],
)
def test_another_sites_page_opens_no_socket(visitor, origin) -> None:
    """Though it knows the kernel's id."""
    assert visitor.handshake(headers={"Origin": origin}) == 403
    assert finished(is_alive(visitor))


def test_the_pages_own_origin_opens_one(visitor) -> None:
    """The control of the test before."""
    assert visitor.handshake(headers={"Origin": visitor.address.rstrip("/")}) == 101


@pytest.mark.parametrize(
    "kernel_id",
    ["00000000-0000-0000-0000-000000000000", "..", "%2e%2e", "x", "*"],
)
def test_a_guessed_kernel_is_not_found(visitor, kernel_id) -> None:
    """Nor is a name that is no id."""
    assert visitor.handshake(kernel_id) == 404


def test_a_kernel_is_gone_with_its_page(app) -> None:
    """Its id opens nothing afterwards."""
    gone = Visitor.at(app.address)
    assert gone.handshake() == 101
    gone.leave()
    assert gone.handshake() == 404
