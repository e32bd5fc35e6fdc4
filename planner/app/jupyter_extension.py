"""A Jupyter server extension that keeps steps of a control short.

The kernel answers a step of a control with several small messages. With Nagle's
algorithm, the default of Jupyter's websocket, the system delays all but the first until
the browser acknowledges it, which adds about 40 ms to each step. This extension,
enabled by `jupyter_server_config.d`, switches the algorithm off for the sockets of
kernels, as the app does.

JupyterLab shows another icon in the browser's tab whenever the kernel is busy, so at
each step, and requests it from the server that is passing on the answer. This extension
lets browsers keep these icons.

To disable it: `jupyter server extension disable planner.app.jupyter_extension`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

_SETTING = "kernel_websocket_connection_class"
_KEPT = "static_immutable_cache"
"""Beginnings of addresses that a browser may keep. Source: jupyter_server
`base/handlers.py`, `FileFindHandler`."""


def undelayed(connection_class: type[Any]) -> type[Any]:
    """Derive a connection class that switches off Nagle's algorithm on connecting."""

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
    if found is not None:  # None: a server that connects pages in another way
        settings[_SETTING] = undelayed(found)
    if "base_url" in settings:
        icons = f"{settings['base_url'].rstrip('/')}/static/favicons/"
        settings[_KEPT] = [*settings.get(_KEPT, ()), icons]
