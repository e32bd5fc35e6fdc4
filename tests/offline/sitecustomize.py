"""Refuses to ask another machine, and notes who was asked.

A Python imports it before anything else when its folder is on PYTHONPATH, and so do
the Pythons that it starts. `PLANNER_TESTS_ASKED` names the file of notes.
"""

import os
import sys
from ipaddress import ip_address
from pathlib import Path

_NOTES = Path(os.environ["PLANNER_TESTS_ASKED"])
_LOCAL = (None, "", "localhost", b"localhost")


def _is_here(host: object) -> bool:
    if host in _LOCAL:
        return True
    try:
        return ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _asked(event: str, arguments: tuple) -> object:
    """Return the host that an event asks for; None where it asks for none."""
    if event == "socket.getaddrinfo":
        return arguments[0]
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        # A path is a socket of this machine.
        return address[0] if isinstance(address, tuple) else None
    return None


def _note(line: str) -> None:
    with _NOTES.open("a", encoding="utf-8") as notes:
        notes.write(f"{line}\n")


def _refuse(event: str, arguments: tuple) -> None:
    host = _asked(event, arguments)
    if _is_here(host):
        return
    _note(f"{event} {host}")
    raise ConnectionRefusedError(f"no network in this test: {host}")


sys.addaudithook(_refuse)
_note("watched")
