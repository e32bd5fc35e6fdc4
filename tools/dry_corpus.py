"""Published start-ups of vLLM beside dry runs of the same starts.

    python -m tools.dry_corpus run ROWS.jsonl --python PYTHON [--python PYTHON]
        [--corpus FILE.jsonl] [--configs FOLDER] [--only TEXT] [--warm]
    python -m tools.dry_corpus keep ROWS.jsonl [--starts STARTS.jsonl]
        [--corpus FILE.jsonl] [--configs FOLDER]
    python -m tools.dry_corpus page STARTS.jsonl [--page PAGE.md]

`run` starts, with the nearest release of the Pythons given, each published start of
0.19 or newer whose model, GPU and arguments are known, and appends a row for each to
ROWS.jsonl, so that a run can go on. No start is run that differs from one with a row
only in how it divides its memory. A compiled start begins with an empty compile cache;
`--warm` runs it once more. `keep` writes a line for every comparable start: what its
log says beside the row that serves it. `page` writes these lines into the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import planner
from planner.confirming.installation import find
from planner.engine.gpu import GPU
from planner.engine.releases import number_of
from planner.errors import PlannerError
from planner.memory.profile_run import ProfileRun
from tools import configs
from tools.dry_corpus_page import SIZES, with_starts
from tools.starts import CORPUS, OTHER_BUILDS, ROOT, arguments, gpu_of, read_records

FIRST = (0, 19, 0)
"""The oldest release whose starts are compared."""
KEPT = (
    *("started", "refused", "seconds", "ranks", "assumed_driver_memory"),
    "compile_cache",
)
"""What a row keeps of a dry run."""
LOGGED = tuple(SIZES)
SEEN = frozenset(
    (
        *("gpu_memory_utilization", "max_model_len", "enable_prefix_caching"),
        *("dtype", "quantization", "kv_cache_dtype", "enable_chunked_prefill"),
        *("max_num_batched_tokens", "max_num_seqs", "max_cudagraph_capture_size"),
        *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
        "enforce_eager",
    )
)
"""Arguments that only divide memory, or that the planner's profile run holds."""
STARTS = ROOT / "tests" / "data" / "dry" / "corpus.jsonl"
PAGE = ROOT / "docs" / "dry-run.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A published start whose model, GPU and nearest release are at hand."""

    record: Mapping[str, Any]
    folder: Path
    gpu: GPU
    dry_release: str

    def plan(self, version: str) -> planner.Plan | None:
        """Return its plan in a release; None where the planner has none."""
        try:
            plan = planner.plan(
                self.folder,
                self.gpu,
                vllm_version=version,
                entrypoint=self.record.get("entrypoint", "serve"),
                **arguments(dict(self.record)),
            )
        except PlannerError:
            return None
        return plan if plan.ranks else None


def main(words: Sequence[str] | None = None) -> int:
    """Run the starts, list them beside their rows, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "keep", "page"))
    parser.add_argument("rows", type=Path)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--corpus", type=Path, action="append")
    parser.add_argument("--configs", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--starts", type=Path, default=STARTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args(words)
    if given.what == "run":
        run(given)
    elif given.what == "keep":
        lines = [json.dumps(start) + "\n" for start in kept(given)]
        given.starts.write_text("".join(lines), encoding="utf-8")
    else:
        text = given.page.read_text(encoding="utf-8")
        given.page.write_text(with_starts(text, _read(given.rows)), encoding="utf-8")
    return 0


def run(given: argparse.Namespace) -> None:
    """Append a row for each start that no row of the file serves."""
    installed = {found.version: found for found in map(find, given.python)}
    rows = _read(given.rows) if given.rows.is_file() else []
    done = [(likeness(_start_of(row, given.configs)), row["cache"]) for row in rows]
    for record in _chosen(given.corpus or [CORPUS], given.only):
        start = located(record, given.configs, installed)
        if start is None:
            continue
        kinds, mine = _kinds(record, warm=given.warm), likeness(start)
        if all((mine, kind) in done for kind in kinds):
            continue
        answers = dry_start(start, installed[start.dry_release].python, kinds)
        for kind in kinds:
            done.append((mine, kind))
            row = _row(start) | {"cache": kind, "dry": answers[kind]}
            with given.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(row["id"], kind, row["dry"]["refused"] or "started", flush=True)


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


def nearest(version: str, versions: Iterable[str]) -> str:
    """Return the nearest release of those; of two as near the newer."""

    def distance(found: str) -> tuple[int, int, int]:
        _, minor, patch = number_of(found)
        _, wanted, wanted_patch = number_of(version)
        return abs(minor - wanted), abs(patch - wanted_patch), -minor

    return min(versions, key=distance)


def located(
    record: Mapping[str, Any], folders: Path | None, versions: Iterable[str]
) -> Located | None:
    """Return a published start with what it needs; None without model or GPU."""
    folder, gpu = _config_folder(record["config"], folders), gpu_of(dict(record))
    if folder is None or gpu is None:
        return None
    release = nearest(record["vllm_version"], versions)
    gpu = _gpu(gpu.name, gpu.total_memory_bytes)
    return Located(record=record, folder=folder, gpu=gpu, dry_release=release)


def _gpu(name: str, total_memory_bytes: int | None) -> GPU:
    """Return a GPU that is equal whether or not a log states its usual total."""
    gpu = GPU.named(name)
    if gpu.total_memory_bytes == total_memory_bytes:
        return gpu
    return GPU.named(name, total_memory_bytes=total_memory_bytes)


def _start_of(row: Mapping[str, Any], folders: Path | None) -> Located:
    """Return the start that was run for a row."""
    folder = _config_folder(row["model"], folders)
    gpu = _gpu(row["gpu"], row["total_memory_bytes"])
    record = {**row, "config": row["model"], "vllm_version": row["release"]}
    if folder is None:
        raise ValueError(f"{row['model']}: its config.json is not there (--configs).")
    return Located(
        record=record, folder=folder, gpu=gpu, dry_release=row["dry_release"]
    )


def _config_folder(name: str, folders: Path | None) -> Path | None:
    if folders is not None and (folders / name / "config.json").is_file():
        return folders / name
    try:
        return configs.folder(name)
    except KeyError:
        return None


def likeness(start: Located) -> object:
    """Return what is equal for starts whose weights and peaks one dry run answers.

    These are the profile runs and weights in the planner, and the arguments that
    these do not hold.
    """
    args, env = start.record["args"], start.record.get("env")
    plan = start.plan(start.dry_release)
    model = (start.record["config"], start.dry_release, env)
    if plan is None:
        return (*model, start.gpu, args)
    ranks = [(_bare(rank.profile_run), *_first_lines(rank)) for rank in plan.ranks]
    return (*model, ranks, {k: v for k, v in args.items() if k not in SEEN})


def _bare(run: ProfileRun | None) -> ProfileRun | None:
    """Return a profile run without what changes no figure of it."""
    if run is None:
        return None
    run = run if run.depends_on_length else run.without_length
    return replace(run, is_batch_given=False)


def _first_lines(rank: Any) -> list[int]:  # noqa: ANN401 - a RankMemory
    return [rank.line(name).size_bytes for name in ("weights", "peak activation")]


def have_equal_rules(start: Located) -> bool:
    """Whether the planner accounts alike for a start in its own and another release."""
    version = start.record["vllm_version"]
    if number_of(version)[:2] == number_of(start.dry_release)[:2]:
        return True
    plans = [start.plan(each) for each in (version, start.dry_release)]
    lines = [plan and [_first_lines(rank) for rank in plan.ranks] for plan in plans]
    return lines[0] is not None and lines[0] == lines[1]


def dry_start(
    start: Located, python: str, kinds: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Start vLLM without a GPU and return its figures by compile cache."""
    try:
        run = planner.dry_run(
            start.folder,
            start.gpu,
            vllm_python=python,
            env=start.record.get("env"),
            compile_cache="both" if "warm" in kinds else "cold",
            listener=lambda _event: None,
            **start.record["args"],
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


def _row(start: Located) -> dict[str, Any]:
    return {
        "id": start.record["id"],
        "model": start.record["config"],
        "gpu": start.gpu.name,
        "total_memory_bytes": start.gpu.total_memory_bytes,
        "release": start.record["vllm_version"],
        "dry_release": start.dry_release,
        "args": start.record["args"],
        "env": start.record.get("env"),
        "entrypoint": start.record.get("entrypoint", "serve"),
    }


def kept(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield each comparable start beside the row that serves it."""
    rows = _read(given.rows)
    done = [(likeness(_start_of(row, given.configs)), row) for row in rows]
    releases = {row["dry_release"] for row in rows}
    for record in _chosen(given.corpus or [CORPUS], given.only):
        start = located(record, given.configs, releases)
        cache = _kinds(record, warm=False)[-1]
        found = _served(start, cache, done, releases) if start else None
        start, row = found or (start, None)
        yield _kept(record, start, row, cache)


def _served(
    start: Located,
    cache: str,
    done: Sequence[tuple[object, Mapping[str, Any]]],
    releases: Iterable[str],
) -> tuple[Located, Mapping[str, Any]] | None:
    """Return the row of the nearest release that serves a start; its own first."""
    version, left = start.record["vllm_version"], set(releases)
    while left:
        release = nearest(version, left)
        left.remove(release)
        here = replace(start, dry_release=release)
        mine = likeness(here)
        own = [row for like, row in done if row["cache"] == cache and like == mine]
        if own:
            return here, min(own, key=lambda row: row["id"] != start.record["id"])
    return None


def _kept(
    record: Mapping[str, Any],
    start: Located | None,
    row: Mapping[str, Any] | None,
    cache: str,
) -> dict[str, Any]:
    measured, args = record["measured"], record["args"]
    line = {
        "id": record["id"],
        "model": record["config"],
        "gpu": record["gpu"],
        "ranks": [args.get(f"{kind}_parallel_size") or 1 for kind in _KINDS],
        "release": record["vllm_version"],
        "cache": cache,
        "logged": {k: measured[k] for k in LOGGED if measured.get(k) is not None},
        "started": measured.get("started"),
    }
    if row is None or start is None:
        return line | {"why_not": "not run yet" if start else "no config.json at hand"}
    found = {"dry_of": row["id"], "dry_release": row["dry_release"]}
    if why_not := _why_not(row):
        return line | found | {"why_not": why_not}
    figures = _figures(start, row, measured.get("available_kv_pp_rank") or 0)
    return line | found | {"has_equal_rules": have_equal_rules(start), **figures}


_KINDS = ("tensor", "pipeline")


def _why_not(row: Mapping[str, Any]) -> str:
    """Say why a row has no figures to compare; nothing where it has."""
    if not row["dry"]["ranks"]:
        return f"refused: {row['dry']['refused']}"
    if row["cache"] == "warm" and row["dry"].get("compile_cache") != "warm":
        return "vLLM compiled again"
    return ""


def _figures(start: Located, row: Mapping[str, Any], stage: int) -> dict[str, Any]:
    """Return the dry figures of a stage, its KV cache with the driver's range.

    vLLM's own KV cache is taken where it divided the memory of this very start; else
    the planner divides it by the rules of the start's release.
    """
    dry = row["dry"]["ranks"][stage]
    figures = {name: dry[name] for name in SIZES.values()}
    version = start.record["vllm_version"]
    plan = start.plan(version)
    if plan is None:
        return figures
    rank = plan.ranks[stage]
    driver = [line for line in rank.lines if line.name in _DRIVERS]
    figures["kv_below_bytes"] = sum(x.high_bytes - x.size_bytes for x in driver)
    figures["kv_above_bytes"] = sum(x.size_bytes - x.low_bytes for x in driver)
    is_same = number_of(version)[:2] == number_of(start.dry_release)[:2]
    if is_same and row["id"] == start.record["id"]:
        return figures
    measured = (dry["weights_bytes"], dry["peak_activation_bytes"])
    if None in measured:
        return figures | {"available_kv_cache_bytes": None}
    left = rank.available_kv_cache_bytes + sum(_first_lines(rank)) - sum(measured)
    return figures | {"available_kv_cache_bytes": left, "is_divided_here": True}


_DRIVERS = ("non-torch", "CUDA graphs")


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
