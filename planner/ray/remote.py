"""The other end of the agent: what Ray says, as messages and as clear sentences."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from planner.errors import PlannerError
from planner.published import is_published

AGENT = Path(__file__).parent / "alone" / "agent.py"

_END_SECONDS = 20.0
INSTALL = "pip install 'ray[data]'"


class Agent:
    """A process that speaks with Ray; it ends with the `with` block, or with this one.

    Raises:
        PlannerError: in a published app, which starts nothing.
    """

    def __init__(self, address: str, request: Mapping[str, Any]) -> None:
        if is_published():
            raise PlannerError("This page is for everybody and asks no cluster.")
        self.address = address
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        self._process = subprocess.Popen(
            [sys.executable, str(AGENT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Its folder is the first place that its imports are looked for.
            env={**_without_warnings(), "PYTHONSAFEPATH": "1"},
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        self.say(address=joined(address), **request)

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def say(self, **words: object) -> None:
        """Tell the agent something; one that has ended is heard of in `messages`."""
        pipe = self._process.stdin
        assert pipe is not None  # asked for when it was started
        with contextlib.suppress(OSError):
            pipe.write((json.dumps(words) + "\n").encode())
            pipe.flush()

    def messages(
        self, first_seconds: float, patience_seconds: float
    ) -> Iterator[dict[str, Any]]:
        """Yield what the agent tells, until it has ended.

        Args:
            first_seconds: how long its first word may take.
            patience_seconds: how long it may say nothing after that; while the cluster
                answers it speaks every other second.

        Raises:
            PlannerError: where Ray is missing, nobody answers at the address, versions
                differ, or the cluster went away.
        """
        limit, heard = first_seconds, False
        while True:
            try:
                told = self._messages.get(timeout=limit)
            except queue.Empty:
                self.end(at_once=True)
                raise PlannerError(_silent(self.address, limit, heard=heard)) from None
            if told is None:
                self._process.wait()
                if self._process.returncode:
                    raise PlannerError(_gone(self.address, self._tail(), heard=heard))
                return
            if told["event"] == "error":
                raise PlannerError(sentence(self.address, told["kind"], told["text"]))
            limit, heard = patience_seconds, True
            yield told

    def end(self, *, at_once: bool = False) -> None:
        """End the agent, and with it all that it started on the cluster."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        deadline = time.monotonic() + (0.0 if at_once else _END_SECONDS)
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._errors.close()

    def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        with pipe:
            for line in pipe:
                with contextlib.suppress(ValueError):
                    self._messages.put(json.loads(line))
        self._messages.put(None)

    def _tail(self) -> str:
        """Return the last thing that Ray wrote before it ended the process."""
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][-300:] if lines else ""


def joined(address: str) -> str:
    """Return the address to ask: for "auto" the cluster that this process is in."""
    ray = sys.modules.get("ray")
    if address != "auto" or ray is None or not ray.is_initialized():
        return address
    return str(ray.get_runtime_context().gcs_address)


# What Ray says, and what is said for it; the first that fits.
_SENTENCES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("ray[client]", "grpc"),
        "An address with ray:// needs Ray Client: pip install 'ray[client]'. Without "
        "it, run this on a machine of the cluster with address='auto'.",
    ),
    (
        ("Could not find any running Ray", "Failed to connect to", "Nobody listens"),
        "No Ray cluster answers at {where}. Start one (ray start --head), give its "
        "address, or address='local' for one on this machine.",
    ),
    (
        ("timed out during startup",),
        "Ray did not come up on this machine in time: it is too busy, or another Ray "
        "holds its ports. Try again.",
    ),
    (
        ("node_ip_address", "No node info found"),
        "This machine is not part of the cluster at {where}, and Ray lets only its "
        "machines join by this address. From elsewhere use Ray Client: "
        "address='ray://HOST:10001'.",
    ),
)


def sentence(address: str, kind: str, text: str) -> str:
    """Say in a sentence or two what Ray said, and what to do."""
    where = _where(address)
    if kind == "missing":
        return (
            f"Ray is not installed in {sys.executable}: {INSTALL}, in the version of "
            "the cluster."
        )
    if "Version mismatch" in text:
        told = " ".join(text.split())
        return (
            f"Ray or Python here is another than the cluster's at {where}. "
            f"{told.partition('Version mismatch: ')[2]} Install the cluster's versions "
            "here."
        )
    for words, said in _SENTENCES:
        if any(word in text for word in words):
            return said.format(where=where)
    first = text.strip().splitlines()[0] if text.strip() else kind
    return f"Ray refused at {where}: {first}"


def _silent(address: str, seconds: float, *, heard: bool) -> str:
    where = _where(address)
    if heard:
        return (
            f"The Ray cluster at {where} has not answered for {seconds:.0f} s; it may "
            "have gone away."
        )
    return (
        f"No Ray cluster answers at {where} within {seconds:.0f} s. Check the address "
        "(ray status on the cluster's head tells it) and that its ports can be reached."
    )


def _gone(address: str, tail: str, *, heard: bool) -> str:
    where = _where(address)
    if heard:
        return f"The Ray cluster at {where} went away. Ray's last words: {tail}"
    return f"No Ray cluster answers at {where}. Ray's last words: {tail}"


def _where(address: str) -> str:
    return "this machine (address='auto')" if address == "auto" else address


def _without_warnings() -> dict[str, str]:
    """Return the environment, but for a switch that makes Ray's own warnings errors."""
    return {
        name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"
    }
