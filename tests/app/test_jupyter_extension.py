"""The server extension: small messages at once, and no busy kernel for a step."""

import asyncio
import inspect
import json
import re
import subprocess
import sys
from types import SimpleNamespace

from planner.app import jupyter_extension


class Handler:
    """A websocket that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def set_nodelay(self, value: bool) -> None:
        self.told.append(("nodelay", value))


class Connection:
    """A connection of some server, with what it was made with."""

    opened = ()

    def __init__(self, websocket_handler: Handler) -> None:
        self.websocket_handler = websocket_handler

    async def connect(self) -> str:
        self.websocket_handler.told.append("connected")
        return "kernel"

    def handle_outgoing_message(self, _stream: object, parts: list[bytes]) -> None:
        self.websocket_handler.told.append(parts[-1])

    def disconnect(self) -> None:
        self.websocket_handler.told.append("disconnected")


def status(state: str, parent: str = "comm_msg") -> list[bytes]:
    """What a kernel sends of its state."""
    heads = ({"msg_type": "status"}, {"msg_type": parent}, {})
    content = {"execution_state": state}
    parts = (json.dumps(part).encode() for part in (*heads, content))
    return [b"kernel.1.status", b"<IDS|MSG>", b"signature", *parts]


BUSY, IDLE = status("busy"), status("idle")


async def passed_on(*messages: list[bytes] | float | None) -> list[object]:
    """What pages are told; a number waits so many seconds, None disconnects."""
    handler = Handler()
    connection = jupyter_extension.undelayed(Connection)(handler)
    for message in messages:
        if message is None:
            connection.disconnect()
        elif isinstance(message, float):
            await asyncio.sleep(message)
        else:
            connection.handle_outgoing_message("iopub", message)
    return handler.told


def load(settings: dict[str, object]) -> dict[str, object]:
    """The settings of a server that has loaded the extension."""
    web_app = SimpleNamespace(settings=settings)
    jupyter_extension._load_jupyter_server_extension(SimpleNamespace(web_app=web_app))
    return settings


def test_a_connection_to_a_kernel_does_not_wait_for_the_browser() -> None:
    """It connects as before, Nagle's algorithm off; its name is the configured one."""
    made = load({"kernel_websocket_connection_class": Connection})
    connection_class = made["kernel_websocket_connection_class"]
    handler = Handler()

    assert asyncio.run(connection_class(handler).connect()) == "kernel"
    assert handler.told == [("nodelay", True), "connected"]
    assert connection_class.__name__ == "Connection"
    assert connection_class.opened is Connection.opened


def test_a_step_of_a_control_shows_no_busy_kernel() -> None:
    """That it is idle is said: a page waits for that after each message."""
    update = [*BUSY[:3], b'{"msg_type": "comm_msg"}', *BUSY[4:6], b"figure"]

    assert asyncio.run(passed_on(BUSY, update, IDLE, 0.15)) == [b"figure", IDLE[-1]]
    assert asyncio.run(passed_on(BUSY, 0.15, IDLE)) == [BUSY[-1], IDLE[-1]]
    assert asyncio.run(passed_on(BUSY, None, 0.15)) == ["disconnected"]


def test_a_cell_shows_a_busy_kernel_at_once() -> None:
    """Also where a message cannot be read, it is passed on as it came."""
    running = status("busy", "execute_request")
    broken = [b"<IDS|MSG>", b"half"]

    assert asyncio.run(passed_on(running, broken)) == [running[-1], b"half"]
    assert jupyter_extension.state_of_widgets(BUSY) == "busy"
    assert jupyter_extension.state_of_widgets("text of a gateway") == ""


def test_a_server_without_such_connections_is_left_alone() -> None:
    """A gateway may have none."""
    assert load({"a": 1}) == {"a": 1}
    assert load({"kernel_websocket_connection_class": None}) == {
        "kernel_websocket_connection_class": None
    }


def test_installing_the_package_lists_it_and_leaves_it_off() -> None:
    """Jupyter's command enables what a file of the environment lists, and no more."""
    listed = subprocess.run(
        [sys.executable, "-m", "jupyter", "server", "extension", "list"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    said = re.sub(r"\x1b\[\d*m", "", listed.stdout + listed.stderr)

    assert f"{jupyter_extension.__name__} disabled" in said
    assert f"{jupyter_extension.__name__}  OK" in said


def test_jupyters_own_connection_has_what_is_added_to() -> None:
    """`websocket_handler` and the methods are there in the installed server."""
    from jupyter_server.services.kernels.connection.channels import (
        ZMQChannelsWebsocketConnection,
    )

    made = jupyter_extension.undelayed(ZMQChannelsWebsocketConnection)

    given = inspect.signature(
        ZMQChannelsWebsocketConnection.handle_outgoing_message
    ).parameters

    assert asyncio.iscoroutinefunction(made.connect)
    assert list(given)[-2:] == ["stream", "outgoing_msg"]
    assert "websocket_handler" in made.class_trait_names()
    assert made.close_all.__func__ is ZMQChannelsWebsocketConnection.close_all.__func__
