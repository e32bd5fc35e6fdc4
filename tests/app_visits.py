"""Visitors of the app without a browser: pages, sockets, kernels' processes."""

import gzip
import json
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from tests.ui.servers import cookie

PATIENCE_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server said."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        packed = self.headers.get("Content-Encoding") == "gzip"
        return (gzip.decompress(self.body) if packed else self.body).decode()


def ask(address: str, path: str = "", method: str = "GET", **headers: str) -> Answer:
    """Send one request; underscores in a header's name are hyphens."""
    place = urlsplit(address)
    connection = HTTPConnection(place.netloc, timeout=PATIENCE_SECONDS)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent.setdefault("Cookie", cookie(address))
    try:
        connection.request(method, place.path + path, headers=sent)
        answer = connection.getresponse()
        return Answer(
            status=answer.status,
            headers={name.title(): value for name, value in answer.getheaders()},
            body=answer.read(),
        )
    finally:
        connection.close()


def visit(address: str) -> str:
    """Open the page and return its kernel's id."""
    return kernel_of(ask(address).text)


def kernel_of(page: str) -> str:
    """Read the kernel's id from a page."""
    found = re.search(r'"kernelId": "([0-9a-f-]{36})"', page)
    assert found is not None
    return found[1]


def leave(address: str, kernel_id: str) -> int:
    """Say that the page goes away, as its beacon does."""
    return ask(address, f"voila/api/shutdown/{kernel_id}", "POST").status


def message(kind: str, content: dict[str, object], channel: str = "shell") -> str:
    """Write a kernel's message as a page sends it."""
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": kind,
        "username": "",
        "session": "test",
        "date": "2026-01-01T00:00:00Z",
        "version": "5.3",
    }
    return json.dumps(
        {
            "channel": channel,
            "header": header,
            "parent_header": {},
            "metadata": {"version": "1.0.0"},
            "content": content,
            "buffers": [],
        }
    )


def socket_address(address: str, kernel_id: str) -> str:
    """Return where a page connects to its kernel."""
    place = address.replace("http://", "ws://")
    return f"{place}api/kernels/{kernel_id}/channels?session_id={uuid.uuid4().hex}"


def eventually(is_so: Callable[[], bool]) -> bool:
    """Wait until something is so; False when it does not come."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(0.05)
    return False


def children(pid: int) -> set[int]:
    """Return the processes that a process started, and theirs."""
    found: set[int] = set()
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found |= {int(child), *children(int(child))}
    return found


def kernels(pid: int) -> set[int]:
    """Return the processes of a server's kernels: what its fork server started."""
    (fork_server,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return children(int(fork_server))
