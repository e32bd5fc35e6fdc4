"""A fixed list of cases, answered by a release itself, and compared.

`cases.jsonl` has a case a line: model, GPU, arguments, and the way it is answered:
"dry" starts vLLM on a GPU that is not there, "meta" asks for its configuration and the
weights of the first rank, which takes a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import planner
from planner.confirming import installation
from planner.confirming.beside_vllm.offline import MARK
from planner.confirming.from_log import measurement_of
from planner.memory.estimate import RankMemory
from planner.units import GIB
from tools import dry_sweep
from tools.configs import named

Row = dict[str, Any]

CASES = Path(__file__).parent / "cases.jsonl"
_WEIGHTS = 0.01
"""Share by which weights may differ: the allocator's tails of small models."""
_PEAK_GIB = 0.02
_SAME = 0.001
"""Share by which two releases may differ and are still called alike."""
_FIGURES = ("weights", "peak", "consumed", "available", "blocks", "tokens")
_PLANNED = (
    *("max_model_len", "gpu_memory_utilization", "max_num_seqs"),
    *("max_num_batched_tokens", "dtype", "max_cudagraph_capture_size"),
)
"""Resolved values that a plan states in vLLM's words.

Not the block size: vLLM settles it once it has built the model.
"""
_REFUSAL = 40
"""Characters of a refusal that are compared."""


_NO_ROOM = "CUDA out of memory"
"""What a start says that does not fit, before vLLM compares anything."""
NO_ANSWER = "no answer"
_LOST = (dry_sweep.NO_FIGURE, NO_ANSWER)
"""In place of vLLM's words, where it said nothing."""


def key(case: Mapping[str, Any]) -> str:
    """Return what tells a case from others, as text."""
    words = (
        f"{name}={json.dumps(value)}" for name, value in sorted(case["args"].items())
    )
    return " ".join([case["model"], "on", case["gpu"], f"({case['way']})", *words])


def answered(
    python: str,
    cases: Iterable[Row],
    seconds: float,
    out: Path,
    ran: Path | None = None,
) -> Iterator[Row]:
    """Let the release in an environment answer; yield and keep each row.

    What the file holds already is left out, so that it can be continued. A case that
    was lost (its process ended or was ended without a word) is not kept: it is asked
    again the next time. `ran`: a file for the lines of vLLM that each case ran.
    """
    found = installation.find(python)
    done = {key(row): row for row in dry_sweep.rows(out)}
    yield from done.values()
    left = [case for case in cases if key(case) not in done]
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as file:
        for (way, _gpu), group in groupby(left, lambda c: (c["way"], c["gpu"])):
            options: dict[str, Any] = {"read": partial(_watched, read=_READERS[way])}
            if way == "meta":
                options["worker"] = "meta_worker.py"
            if ran:
                options["is_watched"] = True
            for row in dry_sweep.swept(list(group), found, seconds, **options):
                lines = row.pop("ran", {})
                if row.get("refused") in _LOST:
                    continue
                text = json.dumps(row)
                if ran:
                    ran.parent.mkdir(parents=True, exist_ok=True)
                    line = json.dumps({"case": key(row), "ran": lines})
                    with ran.open("a", encoding="utf-8") as beside:
                        beside.write(f"{line}\n")
                file.write(f"{text}\n")
                file.flush()
                yield json.loads(text)


def _watched(lines: Iterable[str], read: Callable[[Iterable[str]], Row]) -> Row:
    """Return what a case reported, and the lines that it ran."""
    log = list(lines)
    events = [line for line in log if line.startswith(f'{MARK}{{"event": "ran"')]
    lines = json.loads(events[0][len(MARK) :])["lines"] if events else {}
    return {**read([line for line in log if line not in events]), "ran": lines}


def configured(lines: Iterable[str]) -> Row:
    """Return what `tools/meta_worker.py` reported of one case."""
    log = list(lines)
    events = [json.loads(line[len(MARK) :]) for line in log if line.startswith(MARK)]
    named_events = {event["event"]: event for event in events}
    if "resolved" not in named_events:
        return {"refused": measurement_of("\n".join(log)).error or NO_ANSWER}
    row: Row = {"resolved": named_events["resolved"]["values"]}
    if "built" in named_events:
        row["weights"] = named_events["built"]["weights"]
    if "unbuilt" in named_events:
        row["unbuilt"] = named_events["unbuilt"]["error"]
    return row


_READERS = {"dry": dry_sweep.row_of, "meta": configured}
"""What makes a row of the lines of a case, by the way in which it was answered."""


def changed(before: Iterable[Row], after: Iterable[Row]) -> Iterator[tuple[str, str]]:
    """Yield cases that two releases answer otherwise, with what differs."""
    old = {key(row): row for row in before}
    for row in after:
        one = old.get(key(row))
        if one is not None:
            found = [*_refusals(one, row), *_figures(one, row), *_settings(one, row)]
            if found:
                yield key(row), "; ".join(found)


def _refusals(one: Row, other: Row) -> Iterator[str]:
    old, new = (_plainly(row.get("refused") or "") for row in (one, other))
    if bool(old) != bool(new):
        yield f"refused: {new}" if new else f"no longer refused: {old}"
    elif old and new and old[:_REFUSAL] != new[:_REFUSAL]:
        yield f"refused in other words: {old!r} becomes {new!r}"


def _plainly(refusal: str) -> str:
    """Return the words of a refusal; pydantic's as the reader of logs has them."""
    words = re.sub(r"^\w+Error: ", "", refusal)
    return re.sub(r"^1 validation error for \w+\n([\w.]+)\n +", r"\1: ", words)


def _figures(one: Row, other: Row) -> Iterator[str]:
    for name in _FIGURES:
        old, new = one.get(name), other.get(name)
        if old and new and abs(new / old - 1) > _SAME:
            yield f"{name} {old:,} to {new:,} ({100 * (new / old - 1):+.1f} %)"


def _settings(one: Row, other: Row) -> Iterator[str]:
    old, new = one.get("resolved", {}), other.get("resolved", {})
    for name in sorted({*old, *new}):
        if old and new and old.get(name) != new.get(name):
            yield f"{name} {old.get(name)} becomes {new.get(name)}"


def differing(rows: Iterable[Row], release: str) -> Iterator[tuple[str, str]]:
    """Yield cases that the planner answers otherwise than the release."""
    for row in rows:
        found = list(_planned_otherwise(row, release))
        if found:
            yield key(row), "; ".join(found)


def _planned_otherwise(row: Row, release: str) -> Iterator[str]:
    try:
        plan = planner.plan(
            named(row["model"]), gpu=row["gpu"], vllm_version=release, **row["args"]
        )
    except planner.PlannerError as reason:
        if not row.get("refused"):
            yield f"no plan: {reason}"
        return
    answer = plan.to_dict()
    error = answer["error"] or {}
    refused = error.get("message", "") if error.get("kind") == "refused" else ""
    # Some refusals come only when the model is built.
    theirs = row.get("refused") or (row.get("unbuilt") if refused else "")
    if _NO_ROOM in (theirs or ""):
        if plan.fits or refused:
            yield f"out of memory, planned {refused or 'to fit'}"
        return
    yield from _refusals({"refused": refused}, {"refused": theirs})
    if not plan.ranks or row.get("refused"):
        return
    yield from _off(row, plan)
    for name in _PLANNED:
        value, mine = row.get("resolved", {}).get(name), answer["resolved"].get(name)
        if value is not None and _plain(value) != _plain(mine):
            yield f"{name} {value}, planned {mine}"


def _plain(value: object) -> object:
    return value.removeprefix("torch.") if isinstance(value, str) else value


def _off(row: Row, plan: planner.Plan) -> Iterator[str]:
    """Yield figures of a start that a plan misses."""
    rank = plan.ranks[0]
    planned = _planned_weights(row, rank)
    if row.get("weights") and planned and not _near(planned, row["weights"]):
        yield f"weights {row['weights']:,}, planned {planned:,}"
    if row.get("peak"):
        size = rank.line("peak activation").size_bytes
        if abs(size - row["peak"]) > _PEAK_GIB * GIB:
            yield f"peak {row['peak']:,}, planned {size:,}"


def _planned_weights(row: Row, rank: RankMemory) -> int:
    """Return what a row's weights are compared with; 0: nothing.

    Kernels have not repacked quantised weights of a model without memory.
    """
    if row["way"] == "dry":
        return rank.allocated_weights_bytes
    is_quantised = bool(row.get("resolved", {}).get("quantization"))
    return 0 if is_quantised else rank.weights_bytes


def _near(one: int, other: int) -> bool:
    return abs(one / other - 1) <= _WEIGHTS
