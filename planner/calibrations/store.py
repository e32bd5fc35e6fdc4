"""The stored measurements: find, list, write, forget, export and import.

A file for each record, named by its id. A folder is read again only when it changed.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from planner.calibrations.folder import is_off, records_folder
from planner.calibrations.reading import Reading, json_of, read_folder
from planner.calibrations.record import KIND, SCHEMA, NotARecord, Record, from_dict
from planner.calibrations.record import to_dict as record_dict
from planner.calibrations.writing import write_whole
from planner.errors import PlannerError

_EXPORT_KIND = KIND + "s"
_RACY_NANOSECONDS = 100_000_000
"""A folder that changed so lately may change again without its time telling."""
_MOST_EXPORT_BYTES = 256 << 20


class NotStored(PlannerError):  # noqa: N818 - reads as the sentence it is
    """Figures that were not kept, and why; everything else is as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A record and the file that holds it."""

    record: Record
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What a folder held when it was read, by release and architecture."""

    changed_ns: int
    by_start: dict[tuple[str, str], tuple[Record, ...]]


_KNOWN: dict[str, _Known] = {}
_TOLD: set[str] = set()
_UNREADABLE = -1


def candidates(
    vllm_version: str, architecture: str
) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Return the records of a release and architecture, and what must be said once.

    Reads the folder only when it changed; costs microseconds where there is none.
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
        messages = tuple(text for text in reading.messages if text not in _TOLD)
        _TOLD.update(messages)
        known = _Known(changed_ns=changed_ns, by_start=_by_start(reading.records))
        if time.time_ns() - changed_ns > _RACY_NANOSECONDS:
            _KNOWN[folder] = known
    return known.by_start.get((vllm_version, architecture), ()), messages


def _by_start(
    records: Iterable[Record],
) -> dict[tuple[str, str], tuple[Record, ...]]:
    found: dict[tuple[str, str], tuple[Record, ...]] = {}
    for record in records:
        start = (record.key.vllm_version, record.key.architecture)
        found[start] = (*found.get(start, ()), record)
    return found


def everything() -> Reading:
    """Return all records, newest first, and what was wrong with other files."""
    folder = records_folder()
    if folder is None:
        return Reading()
    reading = read_folder(folder)
    return Reading(
        records=tuple(sorted(reading.records, key=_date, reverse=True)),
        messages=reading.messages,
        newer=reading.newer,
    )


def _date(record: Record) -> str:
    return record.date


def named(start: str) -> Record:
    """Return the record whose id begins so.

    Raises:
        PlannerError: when there is none, or more than one.
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
    """Keep a record; an older one of the same id makes room for it.

    Raises:
        NotStored: in one sentence, when the disk or the folder does not allow it.
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


def forget(records: Iterable[Record]) -> int:
    """Remove records; return how many there were.

    Raises:
        PlannerError: when a file cannot be removed.
    """
    count = 0
    for record in records:
        path = _folder() / f"{record.id}.json"
        try:
            path.unlink()
        except FileNotFoundError:  # another process was quicker
            continue
        except OSError as error:
            raise PlannerError(f"{path} cannot be removed: {_reason(error)}.") from None
        count += 1
    return count


def export_text() -> str:
    """Return all records as one JSON text, which `add_exported` reads."""
    entries = [record_dict(record) for record in everything().records]
    told = {"kind": _EXPORT_KIND, "schema": SCHEMA, "records": entries}
    return json.dumps(told, indent=1) + "\n"


def export_to(path: Path) -> None:
    """Write all records to one new file.

    Raises:
        PlannerError: when the file is there already, or cannot be written.
    """
    if path.exists():
        raise PlannerError(f"{path} is there already. Name another file.")
    try:
        write_whole(path, export_text())
    except OSError as error:
        raise PlannerError(f"{path} cannot be written: {_reason(error)}.") from None


def add_exported(path: Path) -> tuple[int, int]:
    """Add the records of an exported file; return how many were new, and not.

    Of two with the same id the later one stays.

    Raises:
        PlannerError: when the file cannot be read or is no export; nothing is added.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_EXPORT_BYTES)
    except OSError as error:
        raise PlannerError(f"{path} cannot be read: {_reason(error)}.") from None
    try:
        records = _exported(json_of(raw, _MOST_EXPORT_BYTES))
    except NotARecord as reason:
        raise PlannerError(f"{path} is no export of measurements: {reason}.") from None
    dates = {record.id: record.date for record in everything().records}
    added = [r for r in records if r.date > dates.get(r.id, "")]
    for record in added:
        write(record)
    return len(added), len(records) - len(added)


def _exported(told: object) -> list[Record]:
    if not isinstance(told, dict) or told.get("kind") != _EXPORT_KIND:
        raise NotARecord("`planner calibration export` did not write it")
    entries = told.get("records")
    if not isinstance(entries, list):
        raise NotARecord("records is no list")
    return [from_dict(entry) for entry in entries]
