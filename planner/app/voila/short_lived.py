"""The server's folder for files of its kernels: in memory, and gone with the server.

A server that is killed cannot remove it. The next one does: a folder whose lock nobody
holds belongs to no running server, of this machine or of a container that shares its
memory.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from tempfile import gettempdir, mkdtemp

_SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "planner-app-"
_LOCK = "lock"
_OWN_ONLY = 0o600


def made() -> Path:
    """Remove what killed servers left, and return a folder of this server's own."""
    place = _place()
    for left in place.glob(f"{_PREFIX}*"):
        if _is_left(left):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(mkdtemp(prefix=_PREFIX, dir=place))
    _takes_lock(folder / _LOCK)
    return folder


def _place() -> Path:
    """Return a folder in memory where there is one: it works with a full disk."""
    usable = _SHARED_MEMORY.is_dir() and os.access(_SHARED_MEMORY, os.W_OK)
    return _SHARED_MEMORY if usable else Path(gettempdir())


def _is_left(folder: Path) -> bool:
    """Whether a folder of one's own has a lock that no process holds."""
    try:
        is_own = not folder.is_symlink() and folder.stat().st_uid == os.getuid()
        return is_own and (folder / _LOCK).exists() and _takes_lock(folder / _LOCK)
    except (AttributeError, OSError):  # no users, or it went meanwhile
        return False


def _takes_lock(path: Path) -> bool:
    """Take a lock until this process ends; whether no other process holds it."""
    if sys.platform == "win32":
        return False
    import fcntl  # noqa: PLC0415 - not on Windows

    held = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _OWN_ONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return False
    return True
