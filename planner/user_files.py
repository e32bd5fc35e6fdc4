"""Opens the files that users name: regular ones, of a bounded size, without waiting.

A FIFO without a writer, a device and some files of /proc never end; a file that is far
larger than its kind ever is fills the memory. Each is refused in one sentence.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from planner.errors import PlannerError

MOST_CONFIG_BYTES = 16 << 20
"""Of a JSON file beside a model; the largest published ones have a few MiB."""
MOST_TEXT_BYTES = 64 << 20
"""Of a log, and of an index of weights; the largest published index has 25 MiB."""

_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
)


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
) -> bytes:
    """Return the bytes of a regular file.

    Args:
        path: the file.
        most_bytes: a larger file is refused before it is read.
        what: the beginning of the sentence, such as "The log "; the path follows.
        error: raised where the file cannot be read.

    Raises:
        PlannerError: of the class `error`: what was given, what is allowed, what to do.
    """
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
        raise error(
            f"{what}{path} is larger than {most_bytes >> 20} MiB, the most that is "
            "read. Give a part of it, or the right file."
        )
    return found


def read_text(path: Path, most_bytes: int = MOST_TEXT_BYTES, *, what: str = "") -> str:
    """Return a text file's characters; what is not UTF-8 becomes U+FFFD.

    Raises:
        PlannerError: where it cannot be read, or has more than `most_bytes`.
    """
    return read_file(path, most_bytes, what=what).decode("utf-8-sig", "replace")


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


def _unreadable(
    what: str, path: Path, problem: Exception, error: type[PlannerError]
) -> PlannerError:
    why = getattr(problem, "strerror", None) or problem
    do = " Check its permissions." if isinstance(problem, PermissionError) else ""
    return error(f"{what}{path} cannot be read: {why}.{do}")
