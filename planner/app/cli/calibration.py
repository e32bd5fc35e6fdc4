"""`planner calibration`: this user's own measurements, which later plans use."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from planner.app.cli.shared import DOES_NOT_FIT, FITS, Commands, Output
from planner.errors import PlannerError
from planner.planning.calibrations import is_off, records_folder, store
from planner.planning.calibrations.reading import FolderRecords
from planner.planning.calibrations.record import (
    MeasuredRank,
    Record,
    to_dict,
    write_whole,
)
from planner.planning.calibrations.startup_plan import read_startup_plans
from planner.units import format_gib

_Action: TypeAlias = Callable[[dict[str, Any], Output], int]
_LONGEST = 60
_ID = "id of a record, or how it begins"


EXAMPLES = (
    "planner calibration list",
    "planner calibration export measured.json",
    "planner calibration share 1a2b3c shared.json",
    "planner calibration add shared-starts/",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its actions."""
    actions = parser.add_subparsers(
        required=True, metavar="list|show|forget|export|import|share|add|startup-plan"
    )
    listing = _action(actions, "list", "all records, newest first", _list)
    listing.add_argument("--json", action="store_true", help="print JSON")
    showing = _action(actions, "show", "one record with all its figures", _show)
    showing.add_argument("id", help=_ID)
    showing.add_argument("--json", action="store_true", help="print JSON")
    forgetting = _action(actions, "forget", "remove a record, or all", _forget)
    which = forgetting.add_mutually_exclusive_group(required=True)
    which.add_argument("id", nargs="?", help=_ID)
    which.add_argument("--all", action="store_true", help="every record")
    exporting = _action(actions, "export", "write all records as one JSON", _export)
    exporting.add_argument("file", nargs="?", help="a new file; default: the screen")
    importing = _action(actions, "import", "add the records of an export", _import)
    importing.add_argument("file", help="what export wrote")
    sharing = _action(
        actions, "share", "write what of one record may be given to others", _share
    )
    sharing.add_argument("id", help=_ID)
    sharing.add_argument("file", nargs="?", help="a new file; default: share-ID.json")
    sharing.add_argument(
        "--as",
        dest="model",
        default="",
        metavar="MODEL",
        help="a bundled model of the same shape, for one whose name is yours",
    )
    sharing.add_argument("--yes", action="store_true", help="do not ask")
    adding = _action(actions, "add", "add what others shared", _add)
    adding.add_argument("path", help="a file of `share`, or a folder of them")
    reading = _action(
        actions, "startup-plan", "what vLLM wrote down for its next start", _startup
    )
    reading.add_argument("path", help="a startup_plan_*.json, or VLLM_CACHE_ROOT")
    reading.add_argument("--json", action="store_true", help="print JSON")


def _action(
    actions: Commands, name: str, what: str, action: _Action
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=what)
    parser.set_defaults(action=action)
    return parser


def run(options: dict[str, Any], out: Output) -> int:
    """Do what was asked for, and return the exit status."""
    action: _Action = options.pop("action")
    return action(options, out)


def _list(_options: dict[str, Any], out: Output) -> int:
    found = store.everything()
    _warn(found)
    nothing = (
        f"Nothing is stored in {records_folder() or 'any folder'} yet. "
        "`planner confirm` starts vLLM and keeps what it measured."
    )
    return out.write(
        lambda: [to_dict(record) for record in found.records],
        lambda: "\n".join(map(_line, found.records)) or nothing,
        found.records,
    )


def _warn(found: FolderRecords) -> None:
    """Report on standard error which records were set aside or are not used."""
    messages = [*found.messages]
    if found.newer:
        messages.append(
            f"Left as they are: {found.newer} of a later version of the planner."
        )
    if is_off():
        messages.append("PLANNER_CALIBRATION is off, so no plan uses these records.")
    sys.stderr.writelines(f"planner: {message}\n" for message in messages)


def _line(record: Record) -> str:
    return (
        f"{record.id}  {record.day}  {record.device:<24}  "
        f"vLLM {record.key.vllm_version:<7}  {record.model_name}"
    )


def _show(options: dict[str, Any], out: Output) -> int:
    record = store.named(options["id"])
    return out.write(lambda: to_dict(record), lambda: _text(record))


def _text(record: Record) -> str:
    weights = "random" if record.is_dummy else "real"
    driver = f", driver {record.driver_version}" if record.driver_version else ""
    lines = [
        f"Record {record.id} of {record.date}",
        f"{record.model_name} ({record.key.architecture}), {weights} weights",
        f"{record.device}, {format_gib(record.total_memory_bytes)}{driver}; "
        f"vLLM {record.key.vllm_version}, {record.entrypoint}",
        *_settings(record),
    ]
    for rank in record.ranks:
        lines += ["", *_rank(rank, len(record.ranks))]
    if record.captured_graph_bytes is not None:
        lines.append(
            f"  CUDA graphs took {format_gib(record.captured_graph_bytes)} in the end"
        )
    return "\n".join(lines)


def _settings(record: Record) -> list[str]:
    """Write the settings for which the record is used, with long lists shortened."""
    settings = json.loads(record.key.settings)
    return [
        "Used for plans of the same GPU, release, model's shape and settings:",
        *(f"  {name} = {_short(value)}" for name, value in settings.items()),
    ]


def _short(value: object) -> str:
    text = json.dumps(value)
    if isinstance(value, list) and len(text) > _LONGEST:
        return f"[{value[0]}, ..., {value[-1]}] ({len(value)} entries)"
    return text


def _rank(rank: MeasuredRank, count: int) -> list[str]:
    title = "Measured" if count == 1 else f"Measured on pipeline stage {rank.pp_rank}"
    rows = [(" + ".join(line.covers), line.size_bytes) for line in rank.lines]
    if rank.cudagraph_estimate_bytes is not None:
        rows.append(("CUDA graphs, estimated", rank.cudagraph_estimate_bytes))
    available = rank.figure("available_kv_cache_bytes")
    if available is not None:
        rows.append(("left for the KV cache then", available))
    width = max(len(name) for name, _ in rows)
    return [
        f"{title}:",
        *(f"  {name:<{width}}  {format_gib(size):>12}" for name, size in rows),
    ]


def _forget(options: dict[str, Any], _out: Output) -> int:
    found = store.everything().records
    count = store.forget(found if options["all"] else [store.named(options["id"])])
    noun = "record" if count == 1 else "records"
    sys.stdout.write(f"{count} {noun} forgotten.\n")
    return FITS


def _export(options: dict[str, Any], _out: Output) -> int:
    _warn(store.everything())
    if options["file"] is None:
        sys.stdout.write(store.export_text())
        return FITS
    store.export_to(Path(options["file"]))
    count = len(store.everything().records)
    sys.stdout.write(f"{count} written to {options['file']}.\n")
    return FITS


def _import(options: dict[str, Any], _out: Output) -> int:
    added, known = store.add_exported(Path(options["file"]))
    sys.stdout.write(f"{added} added, {known} known already.\n")
    return FITS


def _share(options: dict[str, Any], _out: Output) -> int:
    """Show what would be written, ask, and write it to a new file."""
    from planner.confirming.calibration_sharing import (  # noqa: PLC0415 - slow
        left_out,
        shared_of,
        text_of,
    )

    record = store.named(options["id"])
    text = text_of(shared_of(record, model=options["model"]))
    path = Path(options["file"] or f"share-{record.id}.json")
    if path.exists():
        raise PlannerError(f"{path} already exists. Name another file.")
    sys.stdout.write(text)
    names = ", ".join(left_out(record))
    sys.stderr.write(
        "planner: this is all that is written; nothing is sent."
        f"{f' Left out: {names}.' if names else ''}\n"
    )
    if not options["yes"] and not _agrees(f"Write it to {path}? [y/N] "):
        raise PlannerError("Nothing was written. Give --yes to write it unasked.")
    try:
        write_whole(path, text)
    except OSError as error:
        raise PlannerError(f"{path} cannot be written: {error.strerror}.") from None
    sys.stderr.write(f"planner: written to {path}.\n")
    return FITS


def _agrees(question: str) -> bool:
    """Return whether the user answers yes; False where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _add(options: dict[str, Any], _out: Output) -> int:
    """Add shared starts; what this machine measured itself is never replaced."""
    from planner.confirming.calibration_sharing import (  # noqa: PLC0415 - slow
        files_in,
        read_shared,
    )

    known = {record.id for record in store.everything().records}
    added, skipped, refused = 0, 0, 0
    files = files_in(Path(options["path"]))
    for path in files:
        try:
            record = read_shared(path)
        except PlannerError as error:
            if len(files) == 1:
                raise
            sys.stderr.write(f"planner: {error}\n")
            refused += 1
            continue
        if record.id in known:
            skipped += 1
            continue
        store.write(record)
        known.add(record.id)
        added += 1
        sys.stdout.write(f"{_line(record)}\n")
    sys.stdout.write(f"{added} added, {skipped} known already, {refused} refused.\n")
    return DOES_NOT_FIT if refused else FITS


def _startup(options: dict[str, Any], out: Output) -> int:
    found = read_startup_plans(Path(options["path"]))
    least = min(found, key=lambda one: one.kv_cache_memory_bytes)
    lines = [
        f"{Path(one.path).name}: a KV cache of {format_gib(one.kv_cache_memory_bytes)},"
        f" if {format_gib(one.free_memory_bytes)} are free"
        for one in found
    ]
    lines.append(
        "vLLM applies each to the start and the rank that wrote it, and measures "
        "nothing then. Plan that start as it will be: "
        f"--kv-cache-memory-bytes {least.kv_cache_memory_bytes}"
        f"{' (the least of these)' if len(found) > 1 else ''}"
    )
    return out.write(
        lambda: [asdict(one) for one in found], lambda: "\n".join(lines), found
    )
