"""An app on one's own machine, asked by a real other user of it: `nobody`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.app_visits import children
from tests.security.client import ask
from tests.ui.servers import Served, cookie, served, start_address

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0,
        reason="only root of a Linux can become another user",
    ),
]

NOBODY = 65534
# Everything is imported before the rights go: nobody may not be able to read a Python.
AS_NOBODY = """
import http.client, json, os, socket, sys
from pathlib import Path
asked = json.loads(sys.stdin.read())
asked["headers"] = {}
encoded = "x".encode("idna")
os.setgroups([]); os.setgid(65534); os.setuid(65534)

def status(method, path):
    connection = http.client.HTTPConnection("127.0.0.1", asked["port"], timeout=120)
    socket_words = {"Connection": "Upgrade", "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    connection.request(method, path, headers=socket_words if "channels" in path else {})
    answer = connection.getresponse()
    said = answer.read() if answer.status != 101 else b""
    return [answer.status, asked["kernel"] in said.decode("utf-8", "replace")]

def read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return None

def connects(path):
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(5)
            one.connect(path)
    except OSError as error:
        return type(error).__name__
    return "connected"

def files(place):
    for folder, _, names in os.walk(place):
        yield from (os.path.join(folder, name) for name in names)

token = asked["token"].encode()
seen = {path: read(path) for path in asked["read"]}
seen |= {path: read(path) for place in asked["places"] for path in files(place)}
print(json.dumps({
    "user": os.geteuid(),
    "statuses": {f"{m} {p}": status(m, p) for m, p in asked["requests"]},
    "readable": sorted(path for path, said in seen.items() if said is not None),
    "with_token": sorted(path for path, said in seen.items() if said and token in said),
    "sockets": {path: connects(path) for path in asked["sockets"]},
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """An app that root runs, with a page open in it."""

    served: Served
    place: Path
    """Home, temporary and work folder of the app; everybody may look into it."""
    kernel: str

    @property
    def processes(self) -> set[int]:
        """The server and all that it started."""
        return {self.served.pid, *children(self.served.pid)}

    def as_nobody(self, **questions: Any) -> dict[str, Any]:
        """Become nobody, ask, and return what there was to find."""
        port = int(self.served.address.rsplit(":", 1)[1].strip("/"))
        token = start_address(self.served.address).partition("=")[2]
        given = {"requests": (), "read": (), "places": (), "sockets": ()} | questions
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY],
            input=json.dumps(
                given | {"port": port, "token": token, "kernel": self.kernel}
            ),
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert found["user"] == NOBODY
        return found


@pytest.fixture(scope="module")
def own() -> Iterator[Own]:
    """An app in a folder that every user of the machine can read."""
    place = Path(tempfile.mkdtemp(prefix="planner-own-"))
    place.chmod(0o755)
    before = os.umask(0o022)
    with pytest.MonkeyPatch.context() as patched:
        for name in ("PLANNER_RUNTIME_DIR", "XDG_RUNTIME_DIR", "JUPYTER_RUNTIME_DIR"):
            patched.delenv(name, raising=False)
        for name in ("HOME", "TMPDIR"):
            patched.setenv(name, str(place))
        patched.setenv("PLANNER_DATA_DIR", str(place / "data"))
        with served(place, "--pool=1") as running:
            owner = {"Cookie": cookie(running.address)}
            page = ask(running.address, "/", headers=owner)
            found = re.search(rb'"kernelId": "([0-9a-f-]+)"', page.body)
            assert found is not None
            yield Own(served=running, place=place, kernel=found[1].decode())
    os.umask(before)
    shutil.rmtree(place)


def test_pages_kernels_sockets_and_files_are_refused(own: Own) -> None:
    """403 for what there is, 404 for what Jupyter has elsewhere; never a kernel."""
    kernel = f"/api/kernels/{own.kernel}"
    refused = [
        *(("GET", path) for path in ("/", "/?token=", "/?token=x", "/?model=a/b")),
        *((method, kernel) for method in ("GET", "DELETE")),
        ("GET", f"{kernel}/channels?session_id=s"),
        ("POST", f"/voila/api/shutdown/{own.kernel}"),
    ]
    absent = [
        ("GET", path)
        for path in (
            *("/api/kernels", "/api/sessions", "/api/contents", "/api/status"),
            *("/files/server.log", "/voila/files/server.log", "/tree", "/lab"),
            *("/assets/../server.log", "/assets/%2e%2e/server.log"),
        )
    ]
    found = own.as_nobody(requests=[*refused, *absent])["statuses"]

    assert {tuple(found[f"{m} {p}"]) for m, p in refused} == {(403, False)}
    assert {tuple(found[f"{m} {p}"]) for m, p in absent} <= {(404, False), (403, False)}
    owner = {"Cookie": cookie(own.served.address)}
    assert ask(own.served.address, kernel, headers=owner).status == 200


def test_no_file_or_process_shows_the_token(own: Own) -> None:
    """Arguments of processes can be read by everybody, their environment cannot."""
    processes = [Path(f"/proc/{pid}") for pid in own.processes]
    found = own.as_nobody(
        read=[str(one / name) for one in processes for name in ("cmdline", "environ")],
        places=[str(own.place), "/dev/shm"],
    )

    assert found["with_token"] == []
    readable = found["readable"]
    assert {str(one / "cmdline") for one in processes} <= set(readable)
    assert not {str(one / "environ") for one in processes} & set(readable)
    names = [Path(path).name for path in readable]
    assert not [one for one in names if re.match(r"(jpserver|kernel)-.*json$", one)]
    # The control: the owner's token is in the file that the log names, and not in it.
    token = start_address(own.served.address).partition("=")[2]
    told = own.served.log.read_text()
    (kept,) = re.findall(r"only you can read: (.+)", told)
    assert kept not in readable
    assert token in Path(kept).read_text()
    assert token not in told


def ends_of(processes: set[int]) -> tuple[list[str], list[int]]:
    """The paths of sockets, and the ports, on which processes listen."""
    links = set()
    for pid in processes:
        for end in Path(f"/proc/{pid}/fd").iterdir():
            links.add(end.readlink().name)
    paths, ports = [], []
    for words in map(str.split, Path("/proc/net/unix").read_text().splitlines()[1:]):
        if len(words) > 7 and f"socket:[{words[6]}]" in links:
            paths.append(words[7])
    for table in ("tcp", "tcp6"):
        for words in map(str.split, Path(f"/proc/net/{table}").read_text().split("\n")):
            if len(words) > 9 and words[3] == "0A" and f"socket:[{words[9]}]" in links:
                ports.append(int(words[1].rpartition(":")[2], 16))
    return paths, ports


def test_the_sockets_of_kernels_are_in_a_folder_of_the_owners(own: Own) -> None:
    """Their names can be read by everybody; no port but the app's own is open."""
    paths, ports = ends_of(own.processes)
    found = own.as_nobody(sockets=sorted(set(paths)))["sockets"]

    assert len(found) >= 5  # of one kernel
    assert set(found.values()) == {"PermissionError"}
    assert f":{ports[0]}/" in own.served.address
    assert len(ports) == 1
