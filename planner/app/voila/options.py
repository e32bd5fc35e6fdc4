"""The options of `planner app`."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from planner.values import frozen

NOTEBOOK = Path(__file__).parent / "app.ipynb"


@frozen
class Options:
    """The app's address, its capacity, and whether it is published."""

    address: str = "127.0.0.1"
    port: int = 8866
    base_url: str = "/"
    """The path of the app's address, as a proxy passes it on."""
    published: bool = False
    """Whether people other than this machine's user may open it."""
    pool: int = 2
    """Kernels that wait for the next visitors, with the page already rendered."""
    max_sessions: int = 20
    """Open pages; further visitors have to wait."""
    per_network: int = 0
    """Open pages of one visitor's network; 0: as many as there are."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of proxies that say where a visitor comes from, in X-Real-IP."""
    frame_ancestors: tuple[str, ...] = ()
    """Origins whose pages may show the app in a frame, besides its own."""
    share_at: str = ""
    """Address of an app that others can open, for links; empty: this app's own."""
    room: bool = False
    """Whether phones can vote in a room."""
    opens_browser: bool = False
    """Whether the page is opened in this machine's browser."""
    notebook: Path = NOTEBOOK


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost")
    (True, True, True)
    >>> is_loopback("0.0.0.0"), is_loopback(""), is_loopback("planner.example")
    (False, False, False)
    """
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
