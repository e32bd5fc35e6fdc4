"""The report card: what is not known, and errors by release, GPU and feature."""

from __future__ import annotations

import json
import pathlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from planner.engine.generations import UNIFIED
from planner.engine.gpu import GPU, catalogue
from planner.engine.releases import MODELLED
from planner.memory.lines.calibration import context_of
from planner.memory.lines.outside import resident_threads
from planner.show.certainty import FEW
from planner.units import GIB
from tools.compared import Row, mean
from tools.dry_rows import DryRow
from tools.fit_non_torch import gone_at_start, world_size

_CALIBRATION = (
    pathlib.Path(__file__).resolve().parents[1] / "planner" / "data" / "calibration"
)
_LARGE_GIB = 0.5
_ALIKE_GIB = 0.01


def unknown(rows: Sequence[Row], runs: Sequence[DryRow]) -> str:
    """List what no published start or too few of them tell."""
    minors = sorted({_minor(one) for one in MODELLED}, key=_by_number)
    started = {_minor(row.release) for row in rows}
    gpus = {row.gpu for row in rows}
    cards = [gpu.name for gpu in catalogue() if not gpu.mig_profile]
    features = _grouped(rows, features_of_row)
    names = dict.fromkeys([*features, *_grouped(runs, features_of_row)])
    few = [name for name in names if len(features.get(name, [])) < FEW]
    dry_only = sorted(
        {run.architecture for run in runs} - {row.architecture for row in rows}
    )
    lines = [
        f"- **Releases without a published start that was compared**: "
        f"{', '.join(one for one in minors if one not in started)}. Their rules are "
        "read from vLLM's code, and dry runs of "
        f"{', '.join(sorted({_minor(run.release) for run in runs}, key=_by_number))} "
        "were compared.",
        f"- **GPUs without one**: {', '.join(n for n in cards if n not in gpus)}, and "
        "every MIG slice. What their drivers take is that of similar cards.",
        f"- **Features with fewer than {FEW}**: {', '.join(few) if few else 'none'}.",
        f"- **Architectures known from dry runs only**: {len(dry_only)}, such as "
        f"{', '.join(dry_only[:6])}. What PyTorch allocates for them is known; what "
        "the driver takes is not.",
        *_weak_parts(),
        *_large(rows),
    ]
    return "\n".join(lines)


def _weak_parts() -> list[str]:
    """List the fitted figures that rest on few starts."""
    parts = _table("non_torch")["parts"]
    weak = [name for name, part in parts.items() if len(part["starts"]) < FEW]
    return [
        f"- **Fitted to fewer than {FEW} starts**, and therefore assumed: "
        f"{', '.join(sorted(weak))}."
    ]


def _large(rows: Sequence[Row]) -> list[str]:
    large = [row for row in rows if abs(row.error_gib) > _LARGE_GIB]
    outside = sum(not row.is_inside for row in large)
    return [
        f"- **Off by more than {_LARGE_GIB} GiB**: {len(large)} of {len(rows)} starts, "
        f"{outside} of them outside the stated range; the largest are listed below."
    ]


def by_key(
    rows: Sequence[Row],
    runs: Sequence[DryRow],
    key: Callable[[Row | DryRow], Iterable[str]],
) -> str:
    """Write published starts and dry runs side by side, by a key."""
    starts, dry = _grouped(rows, key), _grouped(runs, key)
    lines = [
        "| | starts | KV cache: mean error, GiB | largest | inside the range "
        "| dry runs | weights within 1 % | peak within 0.02 GiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in _ordered(starts, dry):
        lines.append(
            f"| {name} | {_starts(starts.get(name, []))} | {_dry(dry.get(name, []))} |"
        )
    return "\n".join(lines)


def _starts(group: Sequence[Any]) -> str:
    if not group:
        return "0 | - | - | -"
    errors = [row.error_gib for row in group]
    return (
        f"{len(group)} | {mean(errors):.2f} | "
        f"{max(errors, key=abs):+.2f} | {sum(row.is_inside for row in group)}"
    )


def _dry(group: Sequence[Any]) -> str:
    if not group:
        return "0 | - | -"
    equal = sum(run.has_equal_weights for run in group)
    return f"{len(group)} | {equal} | {sum(run.has_close_peak for run in group)}"


def machines(records: Iterable[dict[str, Any]]) -> str:
    """Write what each kind of machine keeps before vLLM looks, seen and planned."""
    parts = _table("non_torch")["parts"]
    seen: dict[str, list[float]] = defaultdict(list)
    planned: dict[str, str] = {}
    for _name, (record, gpu, kept) in gone_at_start(records):
        kind = _kind(record, gpu)
        seen[kind].append(kept)
        planned[kind] = _planned(record, gpu, parts)
    lines = [
        "| machine | starts | total less free memory, GiB | planned |",
        "| --- | ---: | --- | ---: |",
    ]
    for kind in sorted(seen):
        values = sorted(seen[kind])
        span = f"{values[0]:.2f}"
        if values[-1] - values[0] > _ALIKE_GIB:
            span += f" to {values[-1]:.2f}"
        lines.append(f"| {kind} | {len(values)} | {span} | {planned[kind]} |")
    return "\n".join(lines)


def _kind(record: Mapping[str, Any], gpu: GPU) -> str:
    ranks = world_size(dict(record))
    name = gpu.name if ranks == 1 else f"{gpu.name} x {ranks}"
    return f"{name} under Windows (WSL)" if record.get("is_under_wsl") else name


def _planned(
    record: Mapping[str, Any], gpu: GPU, parts: Mapping[str, Mapping[str, float]]
) -> str:
    if gpu.compute_capability in UNIFIED:
        part = parts["unified memory at start"]
        return f"{part['low_gib']:.1f} to {part['high_gib']:.1f}"
    context = context_of(resident_threads(gpu)).size_bytes / GIB
    if record.get("is_under_wsl"):
        context += parts["Windows"]["gib"]
    if world_size(dict(record)) > 1:
        return f"{context:.2f}, and NCCL where it starts before"
    return f"{context:.2f}"


def family_of(row: Row | DryRow) -> list[str]:
    """Return its kind of model as a key."""
    return [row.family]


def minor_of(row: Row | DryRow) -> list[str]:
    """Return its release as a key."""
    return [_minor(row.release)]


def gpu_of_row(row: Row | DryRow) -> list[str]:
    """Return its GPU as a key."""
    return [row.gpu]


def features_of_row(row: Row | DryRow) -> list[str]:
    """Return its features as keys; a start without any has a key of its own."""
    return list(row.features) or ["none of these"]


def _grouped(
    rows: Sequence[Any], key: Callable[[Any], Iterable[str]]
) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        for name in key(row):
            groups[name].append(row)
    return groups


def _ordered(*groups: Mapping[str, Sequence[Any]]) -> list[str]:
    names = dict.fromkeys(name for group in groups for name in group)
    if all(name[:1].isdigit() for name in names):
        return sorted(names, key=_by_number)
    return sorted(names, key=lambda name: (-len(groups[0].get(name, [])), name))


def _minor(release: str) -> str:
    return ".".join(release.split(".")[:2])


def _by_number(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor.split("."))


def _table(name: str) -> dict[str, Any]:
    text = (_CALIBRATION / f"{name}.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
