"""The stored measurements: find, list, write, forget, export and import.

Each record is one file, named by its id, in the folder for user data that the operating
system prescribes. A folder is read again only after it changed.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from planner.errors import PlannerError
from planner.planning.calibrations import is_off, records_folder
from planner.planning.calibrations.reading import FolderRecords, json_of, read_folder
from planner.planning.calibrations.record import (
    KIND,
    SCHEMA,
    NotARecord,
    Record,
    from_dict,
    write_whole,
)
from planner.planning.calibrations.record import to_dict as record_dict
from planner.user_files import read_file
from planner.values import frozen

_EXPORT_KIND = KIND + "s"
_RECENT_NANOSECONDS = 100_000_000
"""A folder that changed this recently may change again with the same time stamp."""
_MOST_EXPORT_BYTES = 256 << 20
_KNOWN: dict[str, _Known] = {}
_REPORTED: set[str] = set()
_UNREADABLE = -1


class NotStored(PlannerError):  # noqa: N818 - reads as the sentence it is
    """Figures could not be stored; nothing else changed."""


@frozen
class Stored:
    """A record and the file that holds it."""

    record: Record
    path: Path


@frozen
class _Known:
    """The records of a folder when it was read, by release and architecture."""

    changed_ns: int
    by_start: dict[tuple[str, str], tuple[Record, ...]]


def candidates(
    vllm_version: str, architecture: str
) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Return the records of a release and architecture, and messages to show once.

    Reads the folder only after it changed; takes microseconds where there is none.
    """
    folder = None if is_off() else records_folder()
    if folder is None:
        return (), ()
    try:
        changed_ns = os.stat(folder).st_mtime_ns  # noqa: PTH116 - in every plan
    except (FileNotFoundError, NotADirectoryError):
        return (), ()
    except OSError:
        changed_ns = _UNREADABLE
    known = _KNOWN.get(folder)
    messages: tuple[str, ...] = ()
    if known is None or known.changed_ns != changed_ns:
        reading = read_folder(folder)
        messages = tuple(text for text in reading.messages if text not in _REPORTED)
        _REPORTED.update(messages)
        known = _Known(changed_ns=changed_ns, by_start=_by_start(reading.records))
        if time.time_ns() - changed_ns > _RECENT_NANOSECONDS:
            _KNOWN[folder] = known
    return known.by_start.get((vllm_version, architecture), ()), messages


def everything() -> FolderRecords:
    """Return all records, newest first, and messages about unreadable files."""
    folder = records_folder()
    if folder is None:
        return FolderRecords()
    reading = read_folder(folder)
    return FolderRecords(
        records=tuple(sorted(reading.records, key=_date, reverse=True)),
        messages=reading.messages,
        newer=reading.newer,
    )


def named(start: str) -> Record:
    """Return the record whose id starts with `start`.

    Raises:
        PlannerError: when no record matches, or more than one.
    """
    found = [r for r in everything().records if start and r.id.startswith(start)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise PlannerError(
            f"No stored measurement has the id {start!r}. "
            "`planner calibration list` shows all."
        )
    ids = ", ".join(record.id for record in found)
    raise PlannerError(f"{start!r} begins more than one id: {ids}. Write it longer.")


def write(record: Record) -> Stored:
    """Store a record; it replaces an older one with the same id.

    Raises:
        NotStored: when the record cannot be written.
    """
    path = _folder() / f"{record.id}.json"
    text = json.dumps(record_dict(record), indent=1) + "\n"
    try:
        write_whole(path, text)
    except OSError as error:
        raise NotStored(
            f"The figures could not be stored in {path.parent}: {_reason(error)}. "
            f"{_remedy(error)}, or name another folder in PLANNER_DATA_DIR; nothing "
            "that was stored before is lost."
        ) from None
    return Stored(record=record, path=path)


def forget(records: Iterable[Record]) -> int:
    """Remove records; return how many existed.

    Raises:
        PlannerError: when a file cannot be removed.
    """
    count = 0
    for record in records:
        path = _folder() / f"{record.id}.json"
        try:
            path.unlink()
        except FileNotFoundError:  # another process was faster
            continue
        except OSError as error:
            raise PlannerError(f"{path} cannot be removed: {_reason(error)}.") from None
        count += 1
    return count


def export_text() -> str:
    """Return all records as one JSON text, which `add_exported` reads."""
    entries = [record_dict(record) for record in everything().records]
    exported = {"kind": _EXPORT_KIND, "schema": SCHEMA, "records": entries}
    return json.dumps(exported, indent=1) + "\n"


def export_to(path: Path) -> None:
    """Write all records to one new file.

    Raises:
        PlannerError: when the file already exists, or cannot be written.
    """
    try:
        if path.exists():
            raise PlannerError(f"{path} already exists. Name another file.")
        write_whole(path, export_text())
    except OSError as error:
        raise PlannerError(f"{path} cannot be written: {_reason(error)}.") from None


def add_exported(path: Path) -> tuple[int, int]:
    """Add the records of an exported file; return how many were added and skipped.

    Of two records with the same id, the later one stays.

    Raises:
        PlannerError: when the file cannot be read or is not an export; none is added.
    """
    raw = read_file(path, _MOST_EXPORT_BYTES)
    try:
        records = _exported(json_of(raw, _MOST_EXPORT_BYTES))
    except NotARecord as reason:
        raise PlannerError(
            f"{path} is not an export of measurements: {reason}."
        ) from None
    dates = {record.id: record.date for record in everything().records}
    added = [r for r in records if r.date > dates.get(r.id, "")]
    for record in added:
        write(record)
    return len(added), len(records) - len(added)


def _by_start(
    records: Iterable[Record],
) -> dict[tuple[str, str], tuple[Record, ...]]:
    found: dict[tuple[str, str], tuple[Record, ...]] = {}
    for record in records:
        start = (record.key.vllm_version, record.key.architecture)
        found[start] = (*found.get(start, ()), record)
    return found


def _date(record: Record) -> str:
    return record.date


def _folder() -> Path:
    folder = records_folder()
    if folder is None:
        raise NotStored(
            "There is no home folder to store figures in. Name a folder in "
            "PLANNER_DATA_DIR."
        )
    return Path(folder)


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _remedy(error: OSError) -> str:
    has_no_room = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return "Make room there" if has_no_room else "Allow the planner to write there"


def _exported(exported: object) -> list[Record]:
    if not isinstance(exported, dict) or exported.get("kind") != _EXPORT_KIND:
        raise NotARecord("`planner calibration export` did not write it")
    entries = exported.get("records")
    if not isinstance(entries, list):
        raise NotARecord("records is not a list")
    return [from_dict(entry) for entry in entries]
