"""A command under a supervisor, which yields its lines and always ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from planner.errors import PlannerError
from planner.surroundings import is_published

BESIDE_VLLM = Path(__file__).parent / "beside_vllm"
"""Folder of the programs that run in vLLM's Python."""

STOP_SECONDS = 25.0
"""How long the supervisor may take to end everything before it is killed."""
QUIT_SECONDS = 32.0

_CHUNK_BYTES = 1 << 16


class Process:
    """One command in a process group of its own.

    None of its processes outlives this one: the supervisor
    (`beside_vllm/supervisor.py`) ends the group when `stop` is called, when the time
    limit is reached, or when this process is gone.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        limit_seconds: float,
        scratch: Path,
        on_line: Callable[[str], None],
    ) -> None:
        """Start the command; `on_line` is called in a thread with each line.

        Raises:
            PlannerError: in a published app, which starts nothing.
        """
        if is_published():
            raise PlannerError("This is a public page, which starts nothing.")
        supervisor = [
            str(BESIDE_VLLM / "supervisor.py"),
            str(limit_seconds),
            str(scratch),
        ]
        self._supervisor = subprocess.Popen(
            [sys.executable, "-S", "-E", *supervisor, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
        self._on_line = on_line
        self.failure: Exception | None = None
        """The first error that `on_line` raised; later lines are still read."""
        self._reader = threading.Thread(
            target=self._read, name="vLLM's log", daemon=True
        )
        self._reader.start()

    @property
    def group(self) -> int:
        """The number of the process group."""
        return self._supervisor.pid

    @property
    def status(self) -> int | None:
        """The command's exit status; None while it runs."""
        return self._supervisor.poll()

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait for the end, at most that long; return the exit status or None."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._supervisor.wait(seconds)
        return self.status

    def ask_to_stop(self) -> None:
        """Request an immediate end, and return without waiting for it."""
        self._send(b"stop")

    def stop(self) -> None:
        """End it now; return when no process is left."""
        self._end(b"stop", STOP_SECONDS)

    def quit(self) -> None:
        """Let it exit in order, within some seconds; return when no process is left."""
        self._end(b"quit", QUIT_SECONDS)

    def _end(self, word: bytes, seconds: float) -> None:
        self._send(word)
        self.wait(seconds)
        # The supervisor has ended its group, unless it was killed itself.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, signal.SIGKILL)
        self._supervisor.wait()
        self._reader.join(1.0)

    def _send(self, word: bytes) -> None:
        """Send a word to the supervisor; a closed pipe has sent one before."""
        pipe = self._supervisor.stdin
        with contextlib.suppress(OSError, ValueError):
            if pipe is not None:
                pipe.write(word)
                pipe.close()

    def _read(self) -> None:
        pipe = self._supervisor.stdout
        assert pipe is not None  # set by Popen above
        with pipe:
            for line in _lines(pipe):
                self._hand_over(line)

    def _hand_over(self, line: str) -> None:
        """Pass a line on; errors are kept: an unread pipe would block the command."""
        try:
            self._on_line(line)
        except Exception as error:  # noqa: BLE001 - any error is raised later
            self.failure = self.failure or error


def _lines(pipe: IO[bytes]) -> Iterator[str]:
    """Yield lines; a carriage return also ends one, as in progress bars."""
    rest = b""
    while chunk := os.read(pipe.fileno(), _CHUNK_BYTES):
        *whole, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            if line:
                yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")
