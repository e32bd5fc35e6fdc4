"""A command under a supervisor: its lines as they come, and a sure end."""

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
from planner.published import is_published

ALONE = Path(__file__).parent / "alone"
"""Folder of the programs that run in vLLM's Python."""

STOP_SECONDS = 25.0
"""How long the supervisor may take to end everything before it is ended itself."""
QUIT_SECONDS = 32.0

_CHUNK_BYTES = 1 << 16


class Process:
    """One command in a process group of its own.

    Nothing of it outlives this process: the supervisor (`alone/supervisor.py`) ends the
    group when `stop` is called, when the time is over, or when this process is gone.
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
            raise PlannerError("This page is for everybody and starts nothing.")
        supervisor = [str(ALONE / "supervisor.py"), str(limit_seconds), str(scratch)]
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
        """What `on_line` raised first; the lines after it are read all the same."""
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
        """Exit status of the command; None while it runs."""
        return self._supervisor.poll()

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait for the end, at most so long; return the exit status or None."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._supervisor.wait(seconds)
        return self.status

    def ask_to_stop(self) -> None:
        """Have everything ended now; return at once."""
        self._say(b"stop")

    def stop(self) -> None:
        """End it now; return when nothing is left."""
        self._end(b"stop", STOP_SECONDS)

    def quit(self) -> None:
        """Let it end in order, within some seconds; return when nothing is left."""
        self._end(b"quit", QUIT_SECONDS)

    def _end(self, word: bytes, seconds: float) -> None:
        self._say(word)
        self.wait(seconds)
        # The supervisor has ended its group; if it was killed itself, do it here.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, signal.SIGKILL)
        self._supervisor.wait()
        self._reader.join(1.0)

    def _say(self, word: bytes) -> None:
        """Tell the supervisor, once: a closed pipe has been told already."""
        pipe = self._supervisor.stdin
        with contextlib.suppress(OSError, ValueError):
            if pipe is not None:
                pipe.write(word)
                pipe.close()

    def _read(self) -> None:
        pipe = self._supervisor.stdout
        assert pipe is not None  # asked for above
        with pipe:
            for line in _lines(pipe):
                self._hand_over(line)

    def _hand_over(self, line: str) -> None:
        """Give a line away; a pipe that nobody reads would hold the command up."""
        try:
            self._on_line(line)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised later
            self.failure = self.failure or error


def _lines(pipe: IO[bytes]) -> Iterator[str]:
    """Yield lines; a carriage return ends one too, as progress bars write it."""
    rest = b""
    while chunk := os.read(pipe.fileno(), _CHUNK_BYTES):
        *whole, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            if line:
                yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")
