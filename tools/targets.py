"""Run the Makefile's targets, each in a clone of its own from nothing.

    python tools/targets.py            all that can run here; minutes each
    python tools/targets.py docs lite  these alone
    python tools/targets.py --list     which run, which do not, and why

What another target has installed or built is not there, as after `git clone`. The
commit is cloned: what is not committed is not tested. Servers are started, asked until
they answer, and ended.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
SERVERS = {"app": "PORT", "lab": "LAB_PORT", "lessons": "LAB_PORT"}
"""Targets that serve until they are ended, and the variable with the port."""
QUICK = dict.fromkeys(("fuzz", "fuzz-guided", "soak"), "MINUTES=1")
"""Targets that take long, and the variable with which they are short."""
LEFT_OUT = {
    "test": "decides over a change, so that it runs for each",
    "gate": "a part of `make test`",
    "nightly": "it runs this",
    "mutants": "an hour; `make nightly` runs it itself",
    "test-vllm": "installs 3.7 GB; run by .ci/run",
    "test-dry": "installs 10 GB",
    "release": "installs 10 GB",
    "test-versions": "makes environments of its own, 6 GB",
    "test-package": "makes environments of its own",
    "test-container": "needs podman, buildah or docker",
    "test-systemd": "needs root",
    "coverage": "runs every test, as `make test` does",
    "bench-app": "compares with Streamlit, on a quiet machine",
    "bench-classroom": "limits that hold on a quiet machine, with 30 learners",
    "bench-many": "limits that hold on a quiet machine, on a Ray cluster",
    "bench-confirm": "installs vLLM's CPU build, 3.7 GB",
    "bench-gpus": "limits that hold on a quiet machine; imports what bench does",
    "bench-lite": "limits that hold on a quiet machine; builds what lite does",
    "bench-sweep": "limits that hold on a quiet machine; imports what bench does",
    "pictures": "draws committed files again, ten minutes",
    "lock": "asks an index for newer versions",
}
"""Targets that do not run here, and why."""
PATIENCE_SECONDS = 3600
_TARGET = re.compile(r"^([a-z][a-z-]*):.*## ", re.MULTILINE)


def main(words: list[str]) -> int:
    """Run targets and print how each went; 1 where one failed."""
    wanted = [word for word in words if not word.startswith("-")] or runnable()
    if "--list" in words:
        print("\n".join([*runnable(), *(f"not {n}: {w}" for n, w in LEFT_OUT.items())]))
        return 0
    failed = [name for name in wanted if not passes(name)]
    print(f"{len(wanted) - len(failed)} passed, {len(failed)} failed", *failed)
    return 1 if failed else 0


def targets() -> list[str]:
    """Return the targets that `make help` lists."""
    return _TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8"))


def runnable() -> list[str]:
    """Return the targets that run in a clone, on this machine, in minutes."""
    return [name for name in targets() if name not in LEFT_OUT]


def passes(name: str) -> bool:
    """Run a target in a clone of its own; print and return whether it passed."""
    folder = Path(tempfile.mkdtemp(prefix=f"target-{name}-"))
    began = time.monotonic()
    log = folder / "log"
    try:
        tree = folder / "tree"
        _git("clone", "--quiet", str(ROOT), str(tree))
        with log.open("wb") as file:
            is_well = _run(name, tree, file)
        took = time.monotonic() - began
        print(f"{name}: {'passed' if is_well else 'FAILED'} ({took:.0f} s)", flush=True)
        if not is_well:
            print(log.read_text(encoding="utf-8", errors="replace")[-6000:], flush=True)
        return is_well
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _git(*words: str) -> None:
    subprocess.run(["git", *words], check=True)


def _run(name: str, tree: Path, log: IO[bytes]) -> bool:
    """Run `make NAME`; of a server, until it answers."""
    words, port = ["make", name], 0
    if name in QUICK:
        words.append(QUICK[name])
    if name in SERVERS:
        port = _free_port()
        words.append(f"{SERVERS[name]}={port}")
    # Neither the environment nor the jobs of a make that has started this.
    dropped = ("PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    env = {key: one for key, one in os.environ.items() if key not in dropped}
    running = subprocess.Popen(
        words,
        cwd=tree,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        if port:
            return _answers(port, running)
        with suppress(subprocess.TimeoutExpired):
            return bool(running.wait(PATIENCE_SECONDS) == 0)
        return False
    finally:
        _end(running)


def _end(running: subprocess.Popen[bytes]) -> None:
    """End a target with all that it has started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(running.pid, how)
            running.wait(30)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _answers(port: int, running: subprocess.Popen[bytes]) -> bool:
    """Ask until anything but an error of the server comes; False once it has ended."""
    until = time.monotonic() + PATIENCE_SECONDS
    while running.poll() is None and time.monotonic() < until:
        asked = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            asked.request("GET", "/")
            status = asked.getresponse().status
        except (OSError, HTTPException):
            time.sleep(1)
        else:
            return status < 500  # noqa: PLR2004 - an error of the server's
        finally:
            asked.close()
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
