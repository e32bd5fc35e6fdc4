"""tools/dry_corpus.py: published starts in, a row of figures for each out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.confirming.installation import Installation
from planner.units import GIB
from tools import dry_corpus, dry_corpus_page
from tools.configs import named

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


WEIGHTS_BYTES, PEAK_BYTES = round(15.268 * GIB), round(2.2142 * GIB)
RANK = {
    "rank": 0,
    "weights_bytes": WEIGHTS_BYTES,
    "peak_activation_bytes": PEAK_BYTES,
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

    monkeypatch.setattr(planner, "dry_run", dry_run)
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


def keep(folder: Path, *records: dict[str, Any]) -> Any:
    """Run the tool on these starts and return each start beside its row."""
    run(folder, *records)
    starts = folder / "starts.jsonl"
    given = ["--corpus", str(folder / "corpus.jsonl"), "--starts", str(starts)]
    dry_corpus.main(["keep", str(folder / "rows.jsonl"), *given])
    return [json.loads(line) for line in starts.read_text().splitlines()]


def last_cells(starts: Any) -> list[str]:
    """Return the verdict of each start in the table."""
    lines = list(dry_corpus_page.table(starts))[2:]
    return [line.removesuffix(" |").split(" | ")[-1] for line in lines]


def test_the_nearest_release_is_started(
    tmp_path: Path, runs: list[tuple[str, str]]
) -> None:
    """0.20 is one minor release from 0.19, 0.31 two from 0.33."""
    starts = (record("a", "0.20.0"), record("b", "0.31.0"))
    found = [row["dry_release"] for row in run(tmp_path, *starts)]
    assert ["0.19.1", "0.33.0"] == found == [python for python, _cache in runs]


def test_of_two_releases_as_near_the_newer_is_started() -> None:
    """0.22.0 is three minor releases from both."""
    for versions in (["0.19.1", "0.25.1"], ["0.25.1", "0.19.1"]):
        assert dry_corpus.nearest("0.22.0", versions) == "0.25.1"


def test_starts_that_divide_their_memory_differently_share_a_run(
    tmp_path: Path, runs: list[tuple[str, str]]
) -> None:
    """H100, 0.95 instead of 0.92 of 79.18 GiB: 2.38 GiB more for the KV cache."""
    other = record("b", args={"max_model_len": 4096, "gpu_memory_utilization": 0.95})
    first = record("a", args={"max_model_len": 8192, "gpu_memory_utilization": 0.92})
    one, two = keep(tmp_path, first, other)
    assert len(runs) == 1
    assert ("a", "a") == (one["dry_of"], two["dry_of"])
    assert two["is_divided_here"]
    total = planner.GPU.named("H100").total_memory_bytes
    plan = planner.plan(named(MODEL), "H100", vllm_version="0.19.0", **other["args"])
    others = sum(
        line.size_bytes
        for line in plan.ranks[0].lines
        if line.name not in ("weights", "peak activation", "KV cache")
    )
    left = 0.95 * total - others - WEIGHTS_BYTES - PEAK_BYTES
    assert abs(two["available_kv_cache_bytes"] - left) < 2
    assert "available_kv_cache_bytes" in one


@pytest.mark.parametrize(
    "args",
    [
        {"max_model_len": 8192, "max_num_batched_tokens": 4096},
        {"max_model_len": 8192, "tensor_parallel_size": 2},
        {"max_model_len": 8192, "enable_lora": True},
        {"max_model_len": 8192, "dtype": "float32"},
    ],
)
def test_starts_with_other_weights_or_peaks_run_by_themselves(
    tmp_path: Path, runs: list[tuple[str, str]], args: dict[str, Any]
) -> None:
    """A batch, ranks, adapters or a type change what is allocated."""
    run(tmp_path, record("a"), record("b", args=args))
    assert len(runs) == 2


def test_a_start_with_compiled_code_is_not_taken_for_one_without(
    tmp_path: Path, runs: list[tuple[str, str]]
) -> None:
    """The log of a warm start is compared with the second of two runs."""
    warm = record("b", compile_cache="warm")
    starts = keep(tmp_path, record("a", compile_cache="cold"), warm)
    assert ["cold", "both"] == [cache for _python, cache in runs]
    assert [("cold", "a"), ("warm", "b")] == [
        (start["cache"], start["dry_of"]) for start in starts
    ]


def test_a_second_start_that_compiles_again_is_not_warm(
    tmp_path: Path, runs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM's key of compiled code may differ between two starts."""
    monkeypatch.setattr(Answer, "cache", "cold")
    starts = keep(tmp_path, record("a", compile_cache="warm"))
    assert [("0.19.1", "both")] == runs
    assert ["vLLM compiled again"] == last_cells(starts)


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
    """2.2142 GiB for 2.21 is within; 2.30 is 0.086 GiB more, 15.0 0.268 less."""
    off = {"weights_gib": 15.0, "activation_gib": 2.3}
    starts = keep(tmp_path, record("a"), record("b", measured=off))
    assert ["within", "weights +0.268 GiB, peak -0.086 GiB"] == last_cells(starts)


def test_a_cache_may_be_off_by_what_the_driver_may_take() -> None:
    """1 GiB less where the driver takes 1 GiB more than assumed; 2 GiB is too much."""
    start = {"kv_below_bytes": GIB, "kv_above_bytes": 0}
    start |= {"available_kv_cache_bytes": 50 * GIB}
    held = {
        logged: dry_corpus_page.compared(
            start | {"logged": {"available_kv_gib": logged}}
        )["available_kv_gib"]
        for logged in (49.0, 48.0, 50.1)
    }
    assert held[49.0] == (1.0, True)
    assert held[48.0] == (2.0, False)
    assert not held[50.1][1]


def test_the_page_holds_the_starts_between_its_marks(tmp_path: Path) -> None:
    """What was there is replaced, the rest stays."""
    begin, end = dry_corpus_page.BEGIN, dry_corpus_page.END
    page, starts = tmp_path / "page.md", tmp_path / "starts.jsonl"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    line = unrun("not run yet")
    starts.write_text(json.dumps(line) + "\n")
    dry_corpus.main(["page", str(starts), "--page", str(page)])
    text = page.read_text()
    assert text.startswith(f"before\n{begin}\nOf 1 comparable starts 0 stand")
    assert text.endswith(f" --- |\n{end}\nafter\n")
    assert "not run yet" not in text
    assert "\nold\n" not in text


def test_the_page_lists_the_starts_that_differ() -> None:
    """Those of which some figure is beyond its tolerance, and no others."""
    listed = [start["id"] for start in dry_corpus_page.differing(STARTS)]
    beyond = [
        start["id"]
        for start in STARTS
        if "GiB" in dry_corpus_page._words(start) and "why_not" not in start
    ]

    assert beyond == listed
    assert 0 < len(listed) < len(STARTS) / 4


def unrun(why_not: str) -> dict[str, Any]:
    """Return a start without a row."""
    facts = {"id": "a", "model": MODEL, "gpu": "H100", "release": "0.19.0"}
    return facts | {
        "ranks": [1, 1],
        "cache": "cold",
        "logged": {"weights_gib": 15.27},
        "why_not": why_not,
    }


STARTS = [json.loads(line) for line in dry_corpus.STARTS.read_text().splitlines()]

# Of the published starts so many stand beside a dry run, and of these so many figures
# are within. More may be added; none may be lost.
ANSWERED = 40
WITHIN = {
    "weights_gib": (39, 40),
    "activation_gib": (22, 28),
    "available_kv_gib": (37, 38),
}


def test_published_starts_agree_with_dry_runs() -> None:
    """The share that was reached, in docs/dry-run.md too."""
    answered = [start for start in STARTS if "why_not" not in start]
    assert len(answered) >= ANSWERED
    for name, (held, of) in dry_corpus_page.shares(STARTS).items():
        most_held, all_of = WITHIN[name]
        assert of >= all_of
        assert held * all_of >= most_held * of


def test_all_peaks_agree_where_the_rules_are_the_same() -> None:
    """What is off was started with another release, whose peak is another."""
    alike = [start for start in STARTS if start.get("has_equal_rules")]
    held, of = dry_corpus_page.shares(alike)["activation_gib"]
    assert held == of >= 18


def test_the_page_lists_the_published_starts() -> None:
    """As `tools/dry_corpus.py page` writes them."""
    page = dry_corpus.PAGE.read_text(encoding="utf-8")
    assert dry_corpus_page.with_starts(page, STARTS) == page
