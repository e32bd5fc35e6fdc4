"""Writes a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from uuid import uuid4

_LEFT_BEHIND_SECONDS = 3600
_PREFIX, _SUFFIX = ".", ".part"


def write_whole(path: Path, text: str) -> None:
    """Put `text` under `path`; whoever reads it sees the old file or the new one.

    A file of its own beside it takes the text, so that writers never mix; what a crash
    left behind of such files is removed an hour later.

    Raises:
        OSError: when there is no room or no permission; the old file is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_left_behind(path.parent)
    part = path.with_name(f"{_PREFIX}{path.name}.{uuid4().hex}{_SUFFIX}")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    _sync_folder(path.parent)


def move_aside(path: Path, seen: os.stat_result) -> Path | None:
    """Rename a file to its name and `.set-aside`, never over another one.

    None where it is not the file that was `seen` any more.

    Raises:
        OSError: where it cannot be renamed.
    """
    for number in range(1, 1000):
        end = ".set-aside" if number == 1 else f".set-aside-{number}"
        target = path.with_name(path.name + end)
        try:
            now = path.stat()
            if (now.st_ino, now.st_mtime_ns) != (seen.st_ino, seen.st_mtime_ns):
                return None
            _rename_to_new(path, target)
        except FileExistsError:
            continue
        except FileNotFoundError:  # another process was quicker
            return None
        return target
    raise FileExistsError(f"{path.name} was set aside too often")


def _rename_to_new(path: Path, target: Path) -> None:
    """Rename without ever replacing: a second name first, then away with the first."""
    try:
        target.hardlink_to(path)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # a file system without second names
        if target.exists():
            raise FileExistsError(target.name) from None
        path.rename(target)
        return
    path.unlink()


def _remove_left_behind(folder: Path) -> None:
    before = time.time() - _LEFT_BEHIND_SECONDS
    for part in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            if part.stat().st_mtime < before:
                part.unlink()


def _sync_folder(folder: Path) -> None:
    """Let a new name outlive a power cut, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
