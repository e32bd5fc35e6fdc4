"""Opens the files that users name: regular ones, of a bounded size, without waiting.

A FIFO without a writer, a device and some files of /proc never end; a file that is far
larger than its kind ever is fills the memory. Each is refused in one sentence. A text
may come from a pipe, as a shell's `<(...)` gives it: for a bounded time. A value of
JSON takes many times as much memory as its text, a list of 3 bytes 64: they are counted
before any is made.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path
from typing import BinaryIO

from planner.errors import PlannerError

MOST_CONFIG_BYTES = 16 << 20
"""Of a JSON file beside a model; the largest published ones have a few MiB."""
MOST_TEXT_BYTES = 64 << 20
"""Of a log, and of an index of weights; the largest published index has 25 MiB."""

MOST_PIPE_SECONDS = 30.0
"""For a pipe that is written to, until its end."""
_UNWRITTEN_SECONDS = 0.5
"""For a pipe that nobody has opened to write; a writer may come a little later."""
_LOOKED_EVERY_SECONDS = 0.01
_PART_BYTES = 1 << 16

_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
)

MOST_VALUES = 250_000
"""Of a config; the largest published ones list 100,000 modules."""
_MARKS = (",", "[", "{")


def user_path(text: str | os.PathLike[str]) -> Path:
    """Return a path, with a leading ~ as the user's folder where there is such a user.

    >>> user_path("~no such user/m").name
    'm'
    """
    # `Path.expanduser` raises for a user who does not exist.
    return Path(os.path.expanduser(text))  # noqa: PTH111 - as above


def opened(
    path: Path, *, what: str = "", error: type[PlannerError] = PlannerError
) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        path: the file.
        what: the beginning of the sentence, such as "The log "; the path follows.
        error: raised where the file cannot be read.

    Raises:
        PlannerError: of the class `error`: what was given, and what to give.
    """
    mode = 0
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return os.fdopen(os.open(path, os.O_RDONLY | _NO_WAITING), "rb")
    except (OSError, ValueError) as problem:
        raise _unreadable(what, path, problem, error) from None
    kind = next((name for is_it, name in _KINDS if is_it(mode)), "no file")
    raise error(f"{what}{path} cannot be read: it is {kind}. Give a file.")


def read_file(
    path: Path,
    most_bytes: int,
    *,
    what: str = "",
    error: type[PlannerError] = PlannerError,
    may_be_piped: bool = False,
) -> bytes:
    """Return the bytes of a regular file, or of a pipe.

    Args:
        path: the file.
        most_bytes: a larger file is refused before it is read.
        what: the beginning of the sentence, such as "The log "; the path follows.
        error: raised where the file cannot be read.
        may_be_piped: whether a pipe is read too, for `MOST_PIPE_SECONDS` at most.

    Raises:
        PlannerError: of the class `error`: what was given, what is allowed, what to do.
    """
    if may_be_piped and _is_pipe(path):
        return _piped(path, most_bytes, what, error)
    with opened(path, what=what, error=error) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            # Files of /proc have no size: None where one would have to be waited for.
            found = file.read(most_bytes + 1) if size <= most_bytes else None
        except OSError as problem:
            raise _unreadable(what, path, problem, error) from None
    if found is None and size <= most_bytes:
        raise error(f"{what}{path} cannot be read: it never ends. Give a file.")
    if found is None or len(found) > most_bytes:
        raise _too_large(what, path, most_bytes, error)
    return found


def _is_pipe(path: Path) -> bool:
    """Return whether a path names a pipe, such as a shell's `<(...)` makes."""
    try:
        return path.is_fifo()
    except (OSError, ValueError):  # longer than a path may be, or not one at all
        return False


def _piped(path: Path, most_bytes: int, what: str, error: type[PlannerError]) -> bytes:
    """Return what is written to a pipe until its writers have ended."""
    found = bytearray()
    is_written = False
    began = time.monotonic()
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | _NO_WAITING), "rb") as pipe:
            while len(found) <= most_bytes:
                part = _part(pipe.fileno())
                is_written = is_written or part != b""
                if part == b"" and is_written:
                    return bytes(found)
                found += part or b""
                why = _given_up(time.monotonic() - began, is_written=is_written)
                if why:
                    raise error(f"{what}{path} cannot be read: it is a pipe {why}")
                if not part:
                    time.sleep(_LOOKED_EVERY_SECONDS)
    except OSError as problem:
        raise _unreadable(what, path, problem, error) from None
    raise _too_large(what, path, most_bytes, error)


def _given_up(seconds: float, *, is_written: bool) -> str:
    """Return why a pipe is not read any longer; empty where it is."""
    if not is_written and seconds > _UNWRITTEN_SECONDS:
        return (
            "to which nothing is written. Give a file, or a command that writes: "
            "<(command)."
        )
    if seconds > MOST_PIPE_SECONDS:
        return (
            f"that has not ended after {MOST_PIPE_SECONDS:.0f} seconds. Save its text "
            "in a file, and give that."
        )
    return ""


def _part(pipe: int) -> bytes | None:
    """Return what a pipe holds: None while a writer is silent, empty without one."""
    try:
        return os.read(pipe, _PART_BYTES)
    except BlockingIOError:
        return None


def read_text(path: Path, most_bytes: int = MOST_TEXT_BYTES, *, what: str = "") -> str:
    """Return the characters of a text file or a pipe; U+FFFD for what is not UTF-8.

    Raises:
        PlannerError: where it cannot be read, or has more than `most_bytes`.
    """
    raw = read_file(path, most_bytes, what=what, may_be_piped=True)
    return raw.decode("utf-8-sig", "replace")


def read_input(most_characters: int = MOST_TEXT_BYTES) -> str:
    """Return the text on standard input.

    Raises:
        PlannerError: where there is none, or more than `most_characters`.
    """
    if sys.stdin is None:
        raise PlannerError("Standard input is closed. Give a text or a file instead.")
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    try:
        text = sys.stdin.read(most_characters + 1)
    except (OSError, ValueError) as problem:
        raise PlannerError(f"Standard input cannot be read: {problem}.") from None
    if len(text) > most_characters:
        raise PlannerError(
            f"Standard input has more than {most_characters >> 20} Mi characters, the "
            "most that is read. Give a part of it."
        )
    return text


def _too_large(
    what: str, path: Path, most_bytes: int, error: type[PlannerError]
) -> PlannerError:
    return error(
        f"{what}{path} is larger than {most_bytes >> 20} MiB, the most that is "
        "read. Give a part of it, or the right file."
    )


def _unreadable(
    what: str, path: Path, problem: Exception, error: type[PlannerError]
) -> PlannerError:
    why = getattr(problem, "strerror", None) or problem
    do = " Check its permissions." if isinstance(problem, PermissionError) else ""
    return error(f"{what}{path} cannot be read: {why}.{do}")


def check_values(text: str | bytes, where: str, most_values: int = MOST_VALUES) -> None:
    """Refuse a JSON text with too many values, before any is made.

    Args:
        text: the JSON.
        where: the file, for the sentence.
        most_values: counted by commas and brackets, those within texts too.

    Raises:
        PlannerError: naming the file.
    """
    if _num_marks(text) > most_values:
        raise PlannerError(
            f"{where} has more than {most_values:,} values, the most that is read: no "
            "published model's has as many. Download the file again."
        )


def _num_marks(text: str | bytes) -> int:
    if isinstance(text, str):
        return sum(map(text.count, _MARKS))
    return sum(text.count(mark.encode()) for mark in _MARKS)
