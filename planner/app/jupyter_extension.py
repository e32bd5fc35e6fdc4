"""A Jupyter server extension that keeps steps of a control short.

The kernel answers a step of a control with several small messages. With Nagle's
algorithm, the default of Jupyter's websocket, the system delays all but the first until
the browser acknowledges it, which adds about 40 ms to each step. This extension
switches the algorithm off for the sockets of kernels, as the app does.

JupyterLab shows that the kernel is busy, in the notebook and by another icon in the
browser's tab, and at each change requests the icon and the list of kernels from the
server that is passing on the answer. This extension says that a kernel is busy with a
control only if it is for longer than a step takes.

It changes the server for all its notebooks, so nothing enables it but you:
`jupyter server extension enable --sys-prefix planner.app.jupyter_extension`.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

_SETTING = "kernel_websocket_connection_class"
_BUSY_SECONDS = 0.1
"""So long a kernel may be busy with a message of a widget before pages are told."""
_DELIMITER = b"<IDS|MSG>"
"""Source: jupyter_client `session.py`; signature, header, parent header, metadata and
content follow."""


def undelayed(connection_class: type[Any]) -> type[Any]:
    """Derive a connection class that passes on the answers to a step without delay.

    It switches off Nagle's algorithm on connecting, and holds a state back that passes.
    """

    class Undelayed(connection_class):  # type: ignore[misc]
        _busy: asyncio.TimerHandle | None = None

        async def connect(self) -> object:
            self.websocket_handler.set_nodelay(True)
            return await super().connect()

        def handle_outgoing_message(self, *message: Any) -> None:  # noqa: ANN401 - the server's
            state = state_of_widgets(message[-1])
            if state:
                self._forget_busy()
            tell = super().handle_outgoing_message
            if state == "busy":
                loop = asyncio.get_running_loop()
                self._busy = loop.call_later(_BUSY_SECONDS, tell, *message)
            else:
                tell(*message)

        def disconnect(self) -> None:
            self._forget_busy()
            super().disconnect()

        def _forget_busy(self) -> None:
            if self._busy is not None:
                self._busy.cancel()
                self._busy = None

    Undelayed.__name__ = connection_class.__name__  # as configured and logged
    Undelayed.__qualname__ = connection_class.__qualname__
    return Undelayed


def state_of_widgets(message: object) -> str:
    """Return what a kernel's message says of its state while it handles a widget's.

    Args:
        message: the parts of a message, as the kernel sent them.

    Returns:
        "busy" or "idle"; empty for any other message.
    """
    if not isinstance(message, list) or _DELIMITER not in message:
        return ""
    try:
        _signature, header, parent, _metadata, content = message[
            message.index(_DELIMITER) + 1 :
        ]
        if b'"status"' not in header or b'"comm_msg"' not in parent:
            return ""
        return str(json.loads(content)["execution_state"])
    except (ValueError, KeyError, TypeError):
        return ""


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(app: ServerApp) -> None:
    settings = app.web_app.settings
    found = settings.get(_SETTING)
    if found is not None:  # None: a server that connects pages in another way
        settings[_SETTING] = undelayed(found)
