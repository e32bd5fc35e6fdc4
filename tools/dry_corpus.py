"""Published start-ups of vLLM beside dry runs of the same starts.

    python -m tools.dry_corpus run OUT.jsonl --python PYTHON [--python PYTHON]
        [--corpus FILE.jsonl] [--configs FOLDER] [--only TEXT] [--warm]
    python -m tools.dry_corpus table OUT.jsonl

`run` starts, with the nearest release of the Pythons given, each published start of
0.19 or newer whose model, GPU and arguments are known, and appends a row for each to
OUT.jsonl; starts that it holds are left out, so that a run can go on. A compiled start
begins with an empty compile cache; `--warm` runs it once more. `table` prints the rows
as Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import planner
from planner.confirming.installation import Installation, find
from planner.engine.gpu import GPU
from planner.engine.releases import number_of
from planner.errors import PlannerError
from planner.units import GIB
from tools import configs
from tools.starts import CORPUS, OTHER_BUILDS, arguments, gpu_of, read_records

FIRST = (0, 19, 0)
"""The oldest release whose starts are compared."""
KEPT = (
    *("started", "refused", "seconds", "ranks", "assumed_driver_memory"),
    "compile_cache",
)
"""What a row keeps of a dry run."""
LOGGED = ("weights_gib", "activation_gib", "available_kv_gib")
MOST_WEIGHTS_ERROR = 0.001
MOST_PEAK_ERROR_GIB = 0.02
ROUNDING_GIB = 0.005
"""Logs print two decimals."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the starts, or print their table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("rows", type=Path)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--corpus", type=Path, action="append")
    parser.add_argument("--configs", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--warm", action="store_true")
    given = parser.parse_args(words)
    if given.what == "table":
        print("\n".join(table(_read(given.rows))))
        return 0
    return run(given)


def run(given: argparse.Namespace) -> int:
    """Append a row for each start that the file does not hold."""
    installed = [find(python) for python in given.python]
    done = _read(given.rows) if given.rows.is_file() else []
    held = {row["id"] for row in done}
    for record in _chosen(given.corpus or [CORPUS], given.only):
        if record["id"] in held:
            continue
        for row in _rows(record, installed, done, given):
            done.append(row)
            with given.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(row["id"], row["cache"], _words(row), flush=True)
    return 0


def _chosen(corpora: Iterable[Path], only: str) -> Iterator[dict[str, Any]]:
    for corpus in corpora:
        for record in read_records(corpus):
            if only in record["id"] and _is_comparable(record):
                yield record


def _is_comparable(record: Mapping[str, Any]) -> bool:
    """Whether a release as published was started, and all of the start is known."""
    version, measured = record["vllm_version"], record["measured"]
    return bool(
        version
        and record["config"]
        and record["gpu"]
        and number_of(version) >= FIRST
        and record.get("args_complete", True)
        and not record["id"].startswith(OTHER_BUILDS)
        and any(measured.get(name) is not None for name in LOGGED)
    )


def nearest(version: str, installed: Sequence[Installation]) -> Installation:
    """Return the installed vLLM whose release is nearest."""

    def distance(found: Installation) -> tuple[int, int]:
        _, minor, patch = number_of(found.version)
        _, wanted, wanted_patch = number_of(version)
        return abs(minor - wanted), abs(patch - wanted_patch)

    return min(installed, key=distance)


def have_equal_rules(
    record: Mapping[str, Any], folder: Path, gpu: GPU, other: str
) -> bool:
    """Whether the planner accounts alike for a start in its own and another release."""
    if number_of(record["vllm_version"])[:2] == number_of(other)[:2]:
        return True
    releases = (record["vllm_version"], other)
    try:
        lines = [_lines(record, folder, gpu, each) for each in releases]
    except PlannerError:
        return False
    return lines[0] == lines[1]


def _lines(
    record: Mapping[str, Any], folder: Path, gpu: GPU, version: str
) -> list[list[int]]:
    plan = planner.plan(
        folder,
        gpu,
        vllm_version=version,
        entrypoint="serve",
        **arguments(dict(record)),
    )
    return [
        [rank.line(name).size_bytes for name in ("weights", "peak activation")]
        for rank in plan.ranks
    ]


def _rows(
    record: dict[str, Any],
    installed: Sequence[Installation],
    done: Sequence[Mapping[str, Any]],
    given: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    folder = _config_folder(record["config"], given.configs)
    gpu = gpu_of(record)
    if folder is None or gpu is None:
        return
    found = nearest(record["vllm_version"], installed)
    base = _base(record, found, folder, gpu)
    kinds = _kinds(record, warm=given.warm)
    answers = {row["cache"]: row["dry"] for row in done if _is_same(row, base)}
    if not answers.keys() >= set(kinds):
        answers = dry_start(record, folder, gpu, found.python, kinds)
    for kind in kinds:
        yield base | {"cache": kind, "dry": answers[kind]}


def dry_start(
    record: Mapping[str, Any],
    folder: Path,
    gpu: GPU,
    python: str,
    kinds: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """Start vLLM without a GPU and return its figures by compile cache."""
    try:
        run = planner.dry_run(
            folder,
            gpu,
            vllm_python=python,
            env=record.get("env"),
            compile_cache="both" if "warm" in kinds else "cold",
            listener=lambda _event: None,
            **record["args"],
        ).to_dict()
    except PlannerError as error:
        run = {"started": False, "refused": str(error), "ranks": []}
    answer = {name: run.get(name) for name in KEPT}
    cold = answer | {"ranks": run.get("ranks_cold") or run["ranks"]}
    return {kind: cold if kind == "cold" else answer for kind in kinds}


def _kinds(record: Mapping[str, Any], *, warm: bool) -> list[str]:
    """Return the starts that a record needs: only a second one has compiled code."""
    if record["args"].get("enforce_eager"):
        return ["eager"]
    return (
        ["cold", "warm"] if warm or record.get("compile_cache") == "warm" else ["cold"]
    )


def _base(
    record: Mapping[str, Any], found: Installation, folder: Path, gpu: GPU
) -> dict[str, Any]:
    return {
        "id": record["id"],
        "model": record["config"],
        "gpu": gpu.name,
        "total_memory_bytes": gpu.total_memory_bytes,
        "release": record["vllm_version"],
        "dry_release": found.version,
        "has_equal_rules": have_equal_rules(record, folder, gpu, found.version),
        "logged_cache": record.get("compile_cache"),
        "args": record["args"],
        "logged": {
            name: record["measured"][name]
            for name in LOGGED
            if record["measured"].get(name) is not None
        },
    }


def _is_same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two starts are one start, published twice."""
    names = ("model", "gpu", "total_memory_bytes", "dry_release", "args")
    return all(row[name] == other[name] for name in names)


def _config_folder(name: str, folders: Path | None) -> Path | None:
    if folders is not None and (folders / name / "config.json").is_file():
        return folders / name
    try:
        return configs.folder(name)
    except KeyError:
        return None


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def table(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the rows as a table in Markdown, sizes in GiB."""
    yield (
        "| start | model | GPU | TP | release | dry | cache | weights, dry / log | "
        "peak, dry / log | KV, dry / log | |"
    )
    yield "| --- " * 11 + "|"
    for row in rows:
        tp = row["args"].get("tensor_parallel_size", 1)
        sizes = " | ".join(_pair(row, *names) for names in _NAMES)
        yield (
            f"| {row['id']} | {row['model']} | {row['gpu']} | {tp} | "
            f"{row['release']} | {row['dry_release']} | {row['cache']} | {sizes} | "
            f"{_words(row)} |"
        )


_NAMES = (
    ("weights_gib", "weights_bytes"),
    ("activation_gib", "peak_activation_bytes"),
    ("available_kv_gib", "available_kv_cache_bytes"),
)


def _pair(row: Mapping[str, Any], logged: str, dry: str) -> str:
    size = _dry_gib(row, dry)
    here = "-" if size is None else f"{size:.4f}"
    return f"{here} / {row['logged'].get(logged, '-')}"


def _dry_gib(row: Mapping[str, Any], name: str) -> float | None:
    """Return the first rank's figure in GiB, which is the rank that logs print."""
    ranks = row["dry"]["ranks"]
    size = ranks[0][name] if ranks else None
    return None if size is None else size / GIB


def _words(row: Mapping[str, Any]) -> str:
    """Say whether the figures agree to the targets."""
    if not row["dry"]["ranks"]:
        return f"not profiled: {row['dry']['refused']}"
    if row["logged_cache"] not in (None, row["cache"]):
        return f"not compared: the log is of a {row['logged_cache']} start"
    if row["cache"] == "warm" and row["dry"].get("compile_cache") != "warm":
        return "not compared: vLLM compiled again"
    off = [*_weights_off(row), *_peak_off(row)]
    words = ", ".join(off) or "agrees"
    return words if row["has_equal_rules"] else f"{words} (other release's rules)"


def _weights_off(row: Mapping[str, Any]) -> Iterator[str]:
    logged, dry = row["logged"].get("weights_gib"), _dry_gib(row, "weights_bytes")
    if logged is None or dry is None:
        return
    error = dry - logged
    if abs(error) > max(MOST_WEIGHTS_ERROR * logged, ROUNDING_GIB):
        yield f"weights {error / logged:+.2%}"


def _peak_off(row: Mapping[str, Any]) -> Iterator[str]:
    logged = row["logged"].get("activation_gib")
    dry = _dry_gib(row, "peak_activation_bytes")
    if logged is None or dry is None:
        return
    if abs(dry - logged) > MOST_PEAK_ERROR_GIB:
        yield f"peak {dry - logged:+.3f} GiB"


if __name__ == "__main__":
    sys.exit(main())
