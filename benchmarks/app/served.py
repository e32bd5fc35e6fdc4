"""Starts what is measured, and finds its processes."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.app import processes
from tests.ui import servers

ALTERNATIVE = Path(__file__).resolve().parents[1] / "alternatives" / "streamlit_app.py"
MAX_SESSIONS = 120
"""All visitors come from one address, which may take half of the places."""
_START_SECONDS = 60


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check out a commit beside this one; yields its folder.

    It runs with this one's environment, and serves files that it has itself.

    Raises:
        CalledProcessError: when there is no such commit.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "before")
        git = ("git", "-C", str(servers.ROOT), "worktree")
        subprocess.run(
            [*git, "add", "--quiet", "--detach", str(root), commit], check=True
        )
        try:
            yield root
        finally:
            subprocess.run([*git, "remove", "--force", str(root)], check=True)


@contextmanager
def app(pool: int, root: Path) -> Iterator[str]:
    """Serve a checkout's published app, so many kernels waiting; yields the address."""
    flags = ("--published", f"--pool={pool}", f"--max-sessions={MAX_SESSIONS}")
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.served(Path(folder), *flags, root=root) as running,
    ):
        yield running.address


@contextmanager
def alternative(python: str) -> Iterator[str]:
    """Serve the same form and chart with Streamlit; yields the address."""
    port = servers.free_port()
    settings = {
        "server.address": "127.0.0.1",
        "server.port": str(port),
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
    }
    words = [f"--{name}={value}" for name, value in settings.items()]
    server = subprocess.Popen(
        [python, "-m", "streamlit", "run", str(ALTERNATIVE), *words],
        env=os.environ | {"PYTHONPATH": str(servers.ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}/"
    try:
        _wait(f"{address}_stcore/health")
        yield address
    finally:
        server.terminate()
        server.wait(15)


def _wait(address: str) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        try:
            if servers.status(address) == 200:  # noqa: PLR2004 - HTTP's OK
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"{address} did not answer in time.")


def family(address: str) -> processes.Family:
    """Return the processes of a server that this program started.

    Raises:
        ProcessLookupError: when none of them has the port.
    """
    port = str(urlsplit(address).port)
    own = processes.family(os.getpid())
    for process in own.descendants:
        if process.parent == own.server.pid and port in process.command:
            return processes.family(process.pid)
    raise ProcessLookupError(address)
