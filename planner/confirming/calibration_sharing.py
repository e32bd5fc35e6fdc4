"""A measured start that is given to others: what leaves, and what is taken in.

What leaves is a form of its own: whole numbers under known names, a release, and a
model, a GPU and arguments that the planner's own lists name. No part of it can hold a
path, a person's name, an address or a token, whatever the record holds. What comes in
is held to the same form, planned anew, and stored under the key of that plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.confirming.calibration import key_of_plan
from planner.confirming.calibration_form import (
    DRIVER,
    FIGURES,
    KIND,
    MOST_BYTES,
    SCHEMA,
    checked,
    is_told,
    known_gpus,
    known_models,
)
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.planning.calibrations.key import Key, is_same
from planner.planning.calibrations.reading import json_of
from planner.planning.calibrations.record import (
    CoveredLines,
    MeasuredRank,
    NotARecord,
    Record,
    rank_dict,
)
from planner.planning.inputs import Inputs
from planner.planning.result import Plan
from planner.units import MIB
from planner.user_files import read_file

_MATTERS = re.compile(r"(?:VLLM|NCCL|CUDA|PYTORCH|TORCH|NVIDIA|LD)_|[a-z]")
"""Variables with which a start is another: these, and those that plans know."""
_FOLLOW = ("cudagraph_capture_sizes", "max_cudagraph_capture_size", "block_size")
"""Settings that follow from others in most starts."""
_ROUNDS = 5
_MOST_FILES = 10_000


class NotShared(PlannerError):  # noqa: N818 - reads as the sentence it is
    """A record that no shared file can tell, with the reason."""


def shared_of(record: Record, *, model: str = "") -> dict[str, Any]:
    """Return what of a record is given to others, as plain values.

    Args:
        record: a stored start.
        model: a bundled model of the same shape; the record's own where it is bundled.

    Raises:
        NotShared: where the form cannot tell the start, with the reason.
    """
    named = model or record.model_name
    if named not in known_models():
        raise NotShared(
            "Only a model that the planner bundles is named to others: name one of the "
            "same shape, --as owner/name."
        )
    if record.gpu_name not in known_gpus():
        raise NotShared("Only a GPU of the catalogue is named to others.")
    found = {
        "kind": KIND,
        "schema": SCHEMA,
        "vllm_version": record.key.vllm_version,
        "gpu": {
            "name": record.gpu_name,
            "total_memory_bytes": record.total_memory_bytes,
        },
        "driver_version": record.driver_version
        if DRIVER.match(record.driver_version)
        else "",
        "model": named,
        "entrypoint": record.entrypoint,
        "month": record.date[:7],
        "args": {},
        "is_dummy": record.is_dummy,
        "is_compile_cache_cold": record.is_compile_cache_cold,
        "captured_graph_bytes": record.captured_graph_bytes,
        "ranks": [_rank_out(rank) for rank in record.ranks],
    }
    try:
        checked(found)
        found["args"] = _arguments(record, named)
        checked(found)
    except NotARecord as reason:
        raise NotShared(f"This start is not shared: {reason}.") from None
    return found


def record_from(entry: object) -> Record:
    """Return the record of a shared start, under the key of the start as planned here.

    Raises:
        NotARecord: for what is not of the form, naming the field; for figures that no
            such start can have; for a start that cannot be planned.
    """
    values = checked(entry)
    try:
        plan = planned(values)
        key = key_of_plan(plan)
    except PlannerError as error:
        raise NotARecord(f"its start cannot be planned: {error}") from None
    ranks = tuple(_rank_in(rank) for rank in values["ranks"])
    if [rank.pp_rank for rank in ranks] != list(range(len(plan.ranks))):
        raise NotARecord("its ranks are not the stages of its start")
    total = values["gpu"]["total_memory_bytes"]
    if abs(total - known_gpus()[plan.gpu.name].total_memory_bytes) > total // 50:
        raise NotARecord(f"no {plan.gpu.name} has {total:,} bytes")
    return Record(
        key=key,
        gpu_name=plan.gpu.name,
        device_name=plan.gpu.device_name,
        total_memory_bytes=total,
        date=f"{values['month']}-01",
        model_name=plan.name,
        entrypoint=values["entrypoint"],
        driver_version=values["driver_version"],
        is_dummy=values["is_dummy"],
        is_compile_cache_cold=values["is_compile_cache_cold"],
        captured_graph_bytes=values["captured_graph_bytes"],
        ranks=ranks,
    )


def text_of(shared: Mapping[str, Any]) -> str:
    """Return a shared start as the text of its file."""
    return json.dumps(shared, indent=1) + "\n"


def read_shared(path: Path) -> Record:
    """Return the record that a file of a shared start gives.

    Raises:
        PlannerError: for a file that cannot be read, or is not of the form; it names
            the file and the reason.
    """
    raw = read_file(path, MOST_BYTES)
    try:
        return record_from(json_of(raw, MOST_BYTES))
    except NotARecord as reason:
        raise PlannerError(f"{path} is not a shared start: {reason}.") from None


def files_in(path: Path) -> Sequence[Path]:
    """Return the files of shared starts in a folder, or the file itself.

    Raises:
        PlannerError: for a folder with none, or with too many.
    """
    if not path.is_dir():
        return (path,)
    found = sorted(p for p in path.glob("*.json") if not p.is_symlink())
    if not 1 <= len(found) <= _MOST_FILES:
        raise PlannerError(
            f"{path} holds {len(found):,} files of shared starts (*.json); from 1 to "
            f"{_MOST_FILES:,} are read."
        )
    return found


def planned(values: Mapping[str, Any]) -> Plan:
    """Return the plan of a shared start.

    Raises:
        PlannerError: for a start that cannot be planned.
    """
    gpu = values["gpu"]
    return Inputs(
        model=values["model"],
        gpu=GPU.named(gpu["name"], total_memory_bytes=gpu["total_memory_bytes"]),
        vllm_version=values["vllm_version"],
        entrypoint=values["entrypoint"],
        engine_args=dict(values["args"]),
    ).plan()


def left_out(record: Record) -> tuple[str, ...]:
    """Return the variables of a record that no shared start tells."""
    names = (name for name in json.loads(record.key.settings) if "." in name)
    return tuple(name.partition(".")[2] for name in names)


def _arguments(record: Record, model: str) -> dict[str, Any]:
    """Return arguments with which the same start is planned; few are given.

    Raises:
        NotShared: where none of the form give it.
    """
    matters = [name for name in left_out(record) if _MATTERS.match(name)]
    if matters:
        raise NotShared(
            f"This start had {', '.join(sorted(matters)[:4])} set, without which it is "
            "another."
        )
    wanted = {
        name: value
        for name, value in json.loads(record.key.settings).items()
        if not name.startswith("env.")
    }
    key = Key(
        vllm_version=record.key.vllm_version,
        architecture=record.key.architecture,
        fingerprint=record.key.fingerprint,
        settings=json.dumps(wanted, sort_keys=True),
    )
    given = _share(record)
    gpu = {"name": record.gpu_name, "total_memory_bytes": record.total_memory_bytes}
    start = {
        "model": model,
        "gpu": gpu,
        "vllm_version": record.key.vllm_version,
        "entrypoint": record.entrypoint,
    }
    apart: list[str] = []
    for _ in range(_ROUNDS):
        try:
            own = key_of_plan(planned({**start, "args": given}))
        except PlannerError as error:
            raise NotShared(f"This start cannot be planned here: {error}") from None
        if is_same(key, own):
            return given
        if own.fingerprint != key.fingerprint or own.architecture != key.architecture:
            raise NotShared(f"{model} is of another shape than what was measured.")
        has = json.loads(own.settings)
        apart = [n for n in wanted.keys() | has.keys() if wanted.get(n) != has.get(n)]
        new = [
            name
            for name in apart
            if name in wanted and name not in given and is_told(name, wanted[name])
        ]
        first = [n for n in new if n not in _FOLLOW] or new
        if not first:
            break
        given |= {name: wanted[name] for name in first}
    raise NotShared(
        "Settings of this start are not told to others: "
        f"{', '.join(sorted(apart)[:4])}."
    )


def _share(record: Record) -> dict[str, Any]:
    """Return the share of the GPU that the workers' budget shows."""
    requested = record.ranks[0].figure("requested_memory_bytes")
    total = record.total_memory_bytes
    if not requested:
        return {}
    for digits in (2, 3, 4):
        share = round(requested / total, digits)
        if abs(share * total - requested) <= MIB and 0 < share <= 1:
            return {"gpu_memory_utilization": share}
    return {}


def _rank_out(rank: MeasuredRank) -> dict[str, Any]:
    known = tuple((name, size) for name, size in rank.figures if name in FIGURES)
    return rank_dict(replace(rank, figures=known))


def _rank_in(rank: Mapping[str, Any]) -> MeasuredRank:
    return MeasuredRank(
        pp_rank=rank["pp_rank"],
        lines=tuple(
            CoveredLines(covers=tuple(line["covers"]), size_bytes=line["size_bytes"])
            for line in rank["lines"]
        ),
        cudagraph_estimate_bytes=rank["cudagraph_estimate_bytes"],
        figures=tuple(rank["figures"].items()),
    )
