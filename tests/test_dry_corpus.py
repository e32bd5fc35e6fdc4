"""tools/dry_corpus.py: published starts in, a row of figures for each out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.confirming.installation import Installation
from planner.units import GIB
from tools import dry_corpus

MODEL = "Qwen--Qwen3-8B"


def installed(*versions: str) -> list[Installation]:
    """Return installations of these releases; each one's Python is its version."""
    return [
        Installation(python=each, package="vllm", version=each, is_cpu_build=False)
        for each in versions
    ]


def record(name: str, version: str = "0.19.0", **changes: Any) -> dict[str, Any]:
    """Return a published start."""
    return {
        "id": name,
        "config": MODEL,
        "gpu": "H100",
        "vllm_version": version,
        "args": {"max_model_len": 8192},
        "measured": {"weights_gib": 15.27, "activation_gib": 2.21},
        "scored": True,
        **changes,
    }


RANK = {
    "rank": 0,
    "weights_bytes": round(15.268 * GIB),
    "peak_activation_bytes": round(2.2142 * GIB),
    "available_kv_cache_bytes": None,
}


class Answer:
    """What a dry run returns; none runs, each finds the same figures."""

    cache = "warm"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures."""
        found = {"started": True, "ranks": [RANK], "ranks_cold": []}
        return found | {"compile_cache": self.cache}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return the Python and the compile cache of each dry run."""
    asked: list[tuple[str, str]] = []

    def dry_run(*_: object, **given: Any) -> Answer:
        asked.append((given["vllm_python"], given["compile_cache"]))
        return Answer()

    monkeypatch.setattr(dry_corpus.planner, "dry_run", dry_run)
    monkeypatch.setattr(dry_corpus, "find", lambda python: installed(python)[0])
    return asked


def run(folder: Path, *records: dict[str, Any], words: tuple[str, ...] = ()) -> Any:
    """Run the tool on these starts and return its rows."""
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(one) + "\n" for one in records))
    rows = folder / "rows.jsonl"
    given = ["--python", "0.19.1", "--python", "0.33.0", "--corpus", str(corpus)]
    dry_corpus.main(["run", str(rows), *given, *words])
    return [json.loads(line) for line in rows.read_text().splitlines()]


def test_the_nearest_release_is_started(
    tmp_path: Path, runs: list[tuple[str, str]]
) -> None:
    """0.20 is one minor release from 0.19, 0.31 two from 0.33."""
    starts = (record("a", "0.20.0"), record("b", "0.31.0"))
    found = [row["dry_release"] for row in run(tmp_path, *starts)]
    assert ["0.19.1", "0.33.0"] == found == [python for python, _cache in runs]


def test_a_start_that_was_published_twice_runs_once(
    tmp_path: Path, runs: list[tuple[str, str]]
) -> None:
    """Its second row takes the figures of the first."""
    rows = run(tmp_path, record("a"), record("b"))
    assert (["a", "b"], 1) == ([row["id"] for row in rows], len(runs))


def test_a_start_with_compiled_code_is_not_taken_for_one_without(
    tmp_path: Path, runs: list[tuple[str, str]]
) -> None:
    """The log of a warm start is compared with the second of two runs."""
    warm = record("b", compile_cache="warm")
    rows = run(tmp_path, record("a", compile_cache="cold"), warm)
    words = [line.split(" | ")[-1] for line in dry_corpus.table(rows)][2:]
    assert ["cold", "cold", "warm"] == [row["cache"] for row in rows]
    assert ["cold", "both"] == [cache for _python, cache in runs]
    assert ["agrees |", "agrees |"] == [words[0], words[2]]
    assert words[1].startswith("not compared")


def test_a_second_start_that_compiles_again_is_not_warm(
    tmp_path: Path, runs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM's key of compiled code may differ between two starts."""
    monkeypatch.setattr(Answer, "cache", "cold")
    rows = run(tmp_path, record("a", compile_cache="warm"))
    words = [line.split(" | ")[-1] for line in dry_corpus.table(rows)][2:]
    assert [("0.19.1", "both")] == runs
    assert "not compared: vLLM compiled again |" == words[1]


def test_a_run_goes_on_where_it_stopped(
    tmp_path: Path, runs: list[tuple[str, str]]
) -> None:
    """Rows that the file holds are not started again."""
    run(tmp_path, record("a"))
    rows = run(tmp_path, record("a"))
    assert (1, 1) == (len(rows), len(runs))


def test_a_warm_start_follows_the_cold_one(
    tmp_path: Path, runs: list[tuple[str, str]]
) -> None:
    """Both figures are kept; an eager start compiles nothing."""
    eager = record("b", args={"enforce_eager": True})
    rows = run(tmp_path, record("a"), eager, words=("--warm",))
    assert ["cold", "warm", "eager"] == [row["cache"] for row in rows]
    assert ["both", "cold"] == [cache for _python, cache in runs]


@pytest.mark.parametrize(
    "changes",
    [
        {"vllm_version": "0.17.1"},
        {"config": None},
        {"gpu": None},
        {"args_complete": False},
        {"id": "kt-patched"},
    ],
)
def test_a_start_of_which_something_is_unknown_is_left_out(
    changes: dict[str, Any],
) -> None:
    """Release, model, GPU and arguments must be known, and the build published."""
    assert not dry_corpus._is_comparable(record("a") | changes)


@pytest.mark.usefixtures("runs")
def test_the_table_says_what_is_off(tmp_path: Path) -> None:
    """2.2142 GiB for 2.21 agrees; for 2.30 it is 0.086 GiB too little."""
    other = record("b", args={}, measured={"weights_gib": 15.0, "activation_gib": 2.3})
    lines = list(dry_corpus.table(run(tmp_path, record("a"), other)))
    assert lines[2].endswith("| 15.2680 / 15.27 | 2.2142 / 2.21 | - / - | agrees |")
    assert lines[3].endswith("| weights +1.79%, peak -0.086 GiB |")
