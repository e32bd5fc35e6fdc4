"""Whether strangers reach this process: then it starts nothing, reads no folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

PUBLISHED = "PLANNER_PUBLISHED"
"""Environment variable; 1 for an app that others can reach."""

RUNTIME = "PLANNER_RUNTIME_DIR"
"""Environment variable: a folder for what the processes of one server share."""

_NAME = "vllm-memory-planner"


def is_published() -> bool:
    """Tell whether others than this machine's user reach the planner.

    >>> is_published()
    False
    """
    return os.environ.get(PUBLISHED, "") not in ("", "0")


def runtime_folder() -> Path | None:
    """Return the folder that published processes of one server share; made if needed.

    PLANNER_RUNTIME_DIR names it; otherwise it lies in the folder for temporary files
    and nobody else may look into it. None where there can be none.
    """
    from tempfile import gettempdir  # noqa: PLC0415 - only a published process needs it

    given = os.environ.get(RUNTIME)
    folder = Path(given) if given else Path(gettempdir()) / f"{_NAME}-{_user()}"
    try:
        folder.mkdir(mode=0o700, parents=bool(given), exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    if given:
        return folder
    # Others may write to the folder for temporary files: a link or a folder of theirs
    # under this name is not ours.
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == _user()
    return folder if is_own and not found.st_mode & 0o077 else None


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
