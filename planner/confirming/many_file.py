"""The results file of a sweep: one line for each finished plan."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import IO, Any

from planner.confirming.confirmation import question_dict
from planner.confirming.options import RunOptions
from planner.errors import PlannerError
from planner.planning.result import Plan
from planner.user_files import MOST_TEXT_BYTES, read_file
from planner.values import frozen

try:
    import fcntl
except ImportError:  # Windows, where vLLM does not run
    fcntl = None  # type: ignore[assignment]


@frozen
class SweepRow:
    """One plan of a sweep and its result, as plain values."""

    asked: Mapping[str, Any]
    """The plan's inputs: model, GPU, release, arguments."""
    options: Mapping[str, Any]
    """How vLLM was started, such as with dummy weights."""
    outcome: str
    """A `Confirmed`, or "not started"."""
    problem: str = ""
    """Why vLLM was not started; empty if it was."""
    figures: Mapping[str, Any]
    """The whole confirmation except its log; empty if vLLM was not started."""

    def to_dict(self) -> dict[str, Any]:
        """Return one line of the file."""
        return asdict(self)


class ResultsFile:
    """The file that one call writes; with path None, no file.

    Raises:
        PlannerError: if it cannot be read or written, or another call is writing it.
    """

    def __init__(self, path: str | PathLike[str] | None) -> None:
        self.path = None if path is None else Path(path)
        self._file: IO[bytes] | None = None
        self._known: dict[str, SweepRow] = {}

    def __enter__(self) -> ResultsFile:
        if self.path is not None:
            self._file = self._opened(self.path)
            self._known = {
                _identity(row.asked, row.options): row for row in _read(self.path)
            }
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()

    def find(self, plan: Plan, options: RunOptions) -> SweepRow | None:
        """Return the row of a plan that an earlier call finished; None without one."""
        return self._known.get(_identity(question_dict(plan), options_dict(options)))

    def write(self, row: SweepRow) -> None:
        """Append a row; when this returns, it is on the disk."""
        if self._file is None:
            return
        line = json.dumps(row.to_dict(), default=str) + "\n"
        try:
            # An incomplete last line must not be joined with this one.
            if self._file.tell() and not self._ends_line():
                line = "\n" + line
            self._file.write(line.encode())
            self._file.flush()
            with contextlib.suppress(OSError):  # not supported by pipes and some disks
                os.fsync(self._file.fileno())
        except OSError as error:
            raise self._not_written(error) from error

    def _opened(self, path: Path) -> IO[bytes]:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+b")
        except OSError as error:
            raise self._not_written(error) from error
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise PlannerError(
                f"Another call writes its results to {path} now. Wait for it, or give "
                "another file."
            ) from error
        except OSError:
            pass  # a file system without locks
        return file

    def _ends_line(self) -> bool:
        assert self._file is not None  # checked by the caller
        self._file.seek(-1, 2)
        return self._file.read(1) == b"\n"

    def _not_written(self, error: OSError) -> PlannerError:
        return PlannerError(
            f"The results cannot be written to {self.path} ({error}). Make room or "
            "give another file; what was measured before is in it."
        )


def options_dict(options: RunOptions) -> dict[str, Any]:
    """Return the options that affect what is measured."""
    return {"weights": options.weights, "load_requests": options.load_requests}


def not_started(plan: Plan, options: RunOptions, problem: str) -> SweepRow:
    """Return the row of a plan that could not be started."""
    return SweepRow(
        asked=question_dict(plan),
        options=options_dict(options),
        outcome="not started",
        problem=problem,
        figures={},
    )


def write_log(logs: str | PathLike[str] | None, name: str, text: str) -> None:
    """Write vLLM's log into the folder for logs, if there is one.

    Raises:
        PlannerError: if it cannot be written.
    """
    if logs is None or not text:
        return
    folder = Path(logs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
    except OSError as error:
        raise PlannerError(
            f"The log cannot be written to {folder} ({error}). Give another folder."
        ) from error


def _identity(question: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    return json.dumps([question, options], sort_keys=True, default=str)


def _read(path: Path) -> Iterator[SweepRow]:
    """Yield the rows of plans that were started; an incomplete last line is skipped.

    What could not be started is tried again: a GPU may have become free.
    """
    if not path.is_file():
        return
    for line in _text_of(path).splitlines():
        try:
            row = SweepRow(**json.loads(line))
        except (ValueError, TypeError):
            continue
        if not row.problem:
            yield row


def _text_of(path: Path) -> str:
    try:
        return read_file(path, MOST_TEXT_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise PlannerError(
            f"The results in {path} cannot be read ({error}). Give another file."
        ) from error
