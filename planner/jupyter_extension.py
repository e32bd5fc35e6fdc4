"""Jupyter's server passes small messages on at once, while the planner is installed.

A step of a control is answered by several small messages. Jupyter's websocket leaves
them to Nagle's algorithm: the system holds back all but the first until the browser
has confirmed it, which adds about 40 ms to each step. This server extension, enabled by
`jupyter_server_config.d`, switches it off for the sockets of kernels, as the app does.
Switch the extension itself off with
`jupyter server extension disable planner.jupyter_extension`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

_SETTING = "kernel_websocket_connection_class"


def undelayed(connection_class: type[Any]) -> type[Any]:
    """Derive a connection that switches Nagle's algorithm off when it is made."""

    class Undelayed(connection_class):  # type: ignore[misc]
        async def connect(self) -> object:
            self.websocket_handler.set_nodelay(True)
            return await super().connect()

    Undelayed.__name__ = connection_class.__name__  # as configured and logged
    Undelayed.__qualname__ = connection_class.__qualname__
    return Undelayed


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(app: ServerApp) -> None:
    settings = app.web_app.settings
    found = settings.get(_SETTING)
    if found is not None:  # else a server that connects pages in a way of its own
        settings[_SETTING] = undelayed(found)
