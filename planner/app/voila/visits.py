"""A visit: its page, its kernel, and what is kept for a page that lost its network."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from planner.values import frozen

MOST_KEPT_BYTES = 8 << 20
"""Of answers for a page that lost its network; the states of all widgets are 1 MB."""


class AppIsFull(Exception):  # noqa: N818 - reads as the sentence it is
    """As many pages are open as the server allows."""


class NetworkIsFull(AppIsFull):
    """One network has as many pages open as it may."""


@frozen
class Page:
    """The page that a kernel has rendered, compressed by gzip."""

    kernel_id: str
    html: bytes


@dataclass(slots=True, kw_only=True)
class Session:
    """A visitor's kernel."""

    began: float
    alone_since: float | None
    """Since when no page is connected; None while one is."""
    network: str = ""
    """The name of the network that it was opened from."""
    was_connected: bool = False
    active_at: float = field(default_factory=time.monotonic)
    """When its page last sent a message."""


class Keeping(AsyncMappingKernelManager):
    """Keeps a part only of what kernels say to pages that may come back."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self._kept: dict[str, list[tuple[str, list[bytes]]]] = {}

    def start_buffering(
        self, kernel_id: str, session_key: str, channels: dict[str, Any]
    ) -> None:
        """Keep a part only of what a kernel says to a page that may come back.

        Jupyter keeps everything, without bound.
        """
        super().start_buffering(kernel_id, session_key, channels)
        self._kept[kernel_id] = []
        left = MOST_KEPT_BYTES

        def keep(channel: str, parts: list[bytes]) -> None:
            nonlocal left
            self._kept[kernel_id].append((channel, parts))
            left -= sum(map(len, parts))
            if left < 0:
                self.stop_buffering(kernel_id)

        for channel, stream in channels.items():
            stream.on_recv(partial(keep, channel))

    def get_buffer(self, kernel_id: str, session_key: str) -> dict[str, Any] | None:
        """Return what was kept for a page that comes back."""
        kept = self._kept.pop(kernel_id, [])
        found: dict[str, Any] | None = super().get_buffer(kernel_id, session_key)
        return found and found | {"buffer": kept}

    def stop_buffering(self, kernel_id: str) -> None:
        """Forget what was kept."""
        self._kept.pop(kernel_id, None)
        super().stop_buffering(kernel_id)
