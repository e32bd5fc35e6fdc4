"""Starts `planner app --published` on a free loopback port."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.security.client import ask
from tests.ui.servers import PATIENCE_SECONDS, ROOT, free_port


@dataclass
class Served:
    """A running app."""

    address: str
    folder: Path
    """Where it works, with a secret beside it."""
    log: Path
    process: subprocess.Popen[bytes]

    def written(self) -> str:
        """What the server wrote down."""
        return self.log.read_text(encoding="utf-8")


@contextmanager
def served(
    folder: Path, *options: str, before: Sequence[str] = (), **variables: str
) -> Iterator[Served]:
    """Serve the published app from `folder`, by a program `before`, in the block."""
    (folder / "secret.txt").write_text("the secret")
    port = free_port()
    log = folder / "server.log"
    # As the installed command starts: without the folder's modules.
    words = [sys.executable, "-P", "-m", "planner", "app"]
    with log.open("wb") as written:
        process = subprocess.Popen(
            [
                *before,
                *(*words, "--published", f"--port={port}"),
                *("--pool=2", "--max-sessions=12", *options),
            ],
            cwd=folder,
            env=os.environ
            | {
                "PYTHONPATH": str(ROOT),
                "PLANNER_RUNTIME_DIR": str(folder / "run"),
                "HF_HUB_OFFLINE": "1",
                "HF_TOKEN": "hf_the_servers_own",
            }
            | variables,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    running = Served(f"http://127.0.0.1:{port}/", folder, log, process)
    try:
        _wait(running)
        yield running
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(running: Served) -> None:
    """Wait until the server answers."""
    end = time.monotonic() + 2 * PATIENCE_SECONDS
    while time.monotonic() < end:
        if running.process.poll() is not None:
            raise RuntimeError(f"The server ended:\n{running.written()}")
        try:
            if ask(running.address, "/healthz").status == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"The server did not answer in time:\n{running.written()}")
