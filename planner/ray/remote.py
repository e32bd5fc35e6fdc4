"""The planner's side of the agent process: its messages, and Ray's errors in words."""

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
from planner.surroundings import is_published

AGENT = Path(__file__).parent / "beside_ray" / "agent.py"

_END_SECONDS = 20.0
INSTALL = "pip install 'ray[data]'"


class Agent:
    """A process that talks to Ray; it ends with the `with` block, or with this process.

    Raises:
        PlannerError: in a published app, which starts nothing.
    """

    def __init__(self, address: str, request: Mapping[str, Any]) -> None:
        if is_published():
            raise PlannerError("This is a public page, which connects to no cluster.")
        self.address = address
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        self._process = subprocess.Popen(
            [sys.executable, str(AGENT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Otherwise its own folder would be searched first for its imports.
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
        """Send the agent a message; `messages` reports one that has ended."""
        pipe = self._process.stdin
        assert pipe is not None  # PIPE was passed when it was started
        with contextlib.suppress(OSError):
            pipe.write((json.dumps(words) + "\n").encode())
            pipe.flush()

    def messages(
        self, first_seconds: float, patience_seconds: float
    ) -> Iterator[dict[str, Any]]:
        """Yield the agent's messages until it has ended.

        Args:
            first_seconds: how long its first message may take.
            patience_seconds: how long it may be silent after that; while the cluster
                answers, it sends a message every two seconds.

        Raises:
            PlannerError: where Ray is missing, nothing answers at the address, versions
                differ, or the cluster is lost.
        """
        limit, is_connected = first_seconds, False
        while True:
            try:
                reply = self._messages.get(timeout=limit)
            except queue.Empty:
                self.end(at_once=True)
                raise PlannerError(
                    _silent(self.address, limit, is_connected=is_connected)
                ) from None
            if reply is None:
                self._process.wait()
                if self._process.returncode:
                    raise PlannerError(
                        _gone(self.address, self._tail(), is_connected=is_connected)
                    )
                return
            if reply["event"] == "error":
                raise PlannerError(sentence(self.address, reply["kind"], reply["text"]))
            limit, is_connected = patience_seconds, True
            yield reply

    def end(self, *, at_once: bool = False) -> None:
        """End the agent, and with it everything it started on the cluster."""
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
        """Return the last line that Ray wrote before it ended the process."""
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][-300:] if lines else ""


def joined(address: str) -> str:
    """Return the address to connect to: for "auto" this process's own cluster."""
    ray = sys.modules.get("ray")
    if address != "auto" or ray is None or not ray.is_initialized():
        return address
    return str(ray.get_runtime_context().gcs_address)


# Words in Ray's errors, and the message shown instead; the first match counts.
_SENTENCES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("ray[client]", "grpc"),
        "An address with ray:// needs Ray Client: pip install 'ray[client]'. Without "
        "it, run this on a machine of the cluster with address='auto'.",
    ),
    (
        ("Could not find any running Ray", "Failed to connect to", "Nothing listens"),
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
    """Return what Ray reported in a sentence or two, with what to do."""
    where = _where(address)
    if kind == "missing":
        return (
            f"Ray is not installed in {sys.executable}: {INSTALL}, in the version of "
            "the cluster."
        )
    if "Version mismatch" in text:
        line = " ".join(text.split())
        return (
            f"Ray or Python here differs from the cluster's at {where}. "
            f"{line.partition('Version mismatch: ')[2]} Install the cluster's versions "
            "here."
        )
    for words, message in _SENTENCES:
        if any(word in text for word in words):
            return message.format(where=where)
    first = text.strip().splitlines()[0] if text.strip() else kind
    return f"Ray refused at {where}: {first}"


def _silent(address: str, seconds: float, *, is_connected: bool) -> str:
    where = _where(address)
    if is_connected:
        return (
            f"The Ray cluster at {where} has not answered for {seconds:.0f} s; it may "
            "have gone away."
        )
    return (
        f"No Ray cluster answers at {where} within {seconds:.0f} s. Check the address "
        "(`ray status` on the cluster's head shows it) and that its ports can be "
        "reached."
    )


def _gone(address: str, tail: str, *, is_connected: bool) -> str:
    where = _where(address)
    if is_connected:
        return f"The Ray cluster at {where} went away. Ray's last words: {tail}"
    return f"No Ray cluster answers at {where}. Ray's last words: {tail}"


def _where(address: str) -> str:
    return "this machine (address='auto')" if address == "auto" else address


def _without_warnings() -> dict[str, str]:
    """Return the environment without PYTHONWARNINGS, which may make warnings errors."""
    return {
        name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"
    }
