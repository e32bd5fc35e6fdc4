"""Reads the files of a folder of records; other files are set aside, not deleted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from planner.errors import PlannerError
from planner.planning.calibrations.record import (
    NewerRecord,
    NotARecord,
    Record,
    from_dict,
    move_aside,
)
from planner.user_files import opened
from planner.values import frozen

_MOST_BYTES = 4 << 20
"""A record has a few KiB."""


@frozen
class FolderRecords:
    """The records of a folder."""

    records: tuple[Record, ...] = ()
    messages: tuple[str, ...] = ()
    """One sentence for each file that was set aside or could not be read."""
    newer: int = 0
    """Number of files of a later version of the planner, which are left untouched."""


@dataclass(slots=True)
class _Gathered:
    """A `FolderRecords` while it is built."""

    records: list[Record] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    newer: int = 0


def read_folder(folder: str) -> FolderRecords:
    """Read every `*.json` of a folder; a missing folder has no records."""
    found = _Gathered()
    try:
        paths = sorted(_json_files(folder))
    except (FileNotFoundError, NotADirectoryError):
        return FolderRecords()
    except OSError as error:
        return FolderRecords(
            messages=(
                f"The stored measurements in {folder} cannot be read "
                f"({error.strerror}), so they are not used.",
            )
        )
    for path in paths:
        _read_into(found, path)
    return FolderRecords(
        records=tuple(found.records), messages=tuple(found.messages), newer=found.newer
    )


def _json_files(folder: str) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                yield Path(entry.path)


def _read_into(found: _Gathered, path: Path) -> None:
    try:
        with opened(path) as file:
            seen = os.fstat(file.fileno())
            raw = file.read(_MOST_BYTES + 1) or b""  # None: nothing to read yet
    except (OSError, PlannerError) as error:
        if not os.path.lexists(path):  # forgotten by another process meanwhile
            return
        found.messages.append(
            f"{str(error).rstrip('.')}; it is left as it is, and not used."
        )
        return
    try:
        record = from_dict(json_of(raw, _MOST_BYTES))
        _check_name(path, record)
    except NewerRecord:
        found.newer += 1
    except NotARecord as reason:
        found.messages += _set_aside(path, seen, str(reason))
    except (ValueError, RecursionError):
        found.messages += _set_aside(path, seen, "it holds what no record can hold")
    else:
        found.records.append(record)


def _check_name(path: Path, record: Record) -> None:
    if record.id != path.stem:
        raise NotARecord("its name is not its id")


def json_of(raw: bytes, most_bytes: int) -> object:
    """Parse untrusted JSON.

    Raises:
        NotARecord: when it is too large or not JSON.
    """
    if len(raw) > most_bytes:
        raise NotARecord("it is far too large")
    try:
        value: object = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        raise NotARecord("it is not JSON, or not all of it") from None
    return value


def _set_aside(path: Path, seen: os.stat_result, reason: str) -> list[str]:
    what = f"{path} is not a stored measurement: {reason}."
    try:
        target = move_aside(path, seen)
    except OSError as error:
        return [f"{what} It is left as it is ({error.strerror}), and not used."]
    if target is None:
        return []
    return [f"{what} It was set aside as {target.name}, and is not used."]
