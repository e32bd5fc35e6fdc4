"""What a report says of two releases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from planner.confirming import installation
from planner.engine.releases import NEWEST
from tests.release.wheels import NEW, OLD, package
from tools.release import __main__ as program
from tools.release import answers, installing, record, report
from tools.release.record import Record
from tools.release.symbols import Citation, Sources

CITED = [
    Citation(path="config/cache.py", symbol="room", rule="planner/a.py::rule"),
    Citation(path="engine/arg_utils.py", symbol="get_batch_defaults", rule="b.py"),
    Citation(path="gpu_worker.py", symbol="request_memory", rule="c.py::_LIMIT"),
    Citation(path="envs.py", symbol="VLLM_GONE", rule="d.py"),
]
CASE = {"model": "Qwen/Qwen3-8B", "gpu": "H100", "way": "dry", "args": {"a": 1}}


@pytest.fixture
def found(tmp_path: Path) -> report.Findings:
    """Return two made-up releases, compared."""
    planner = tmp_path / "planner"
    planner.mkdir()
    old, new = package(tmp_path / "old", OLD), package(tmp_path / "new", NEW)
    records = [
        record.of_sources(release, one, CITED, planner)
        for release, one in (("0.98.0", old), ("0.99.0", new))
    ]
    return report.Findings(
        before=records[0], after=records[1], cited=CITED, new=Sources(new)
    )


def section(text: str, title: str) -> list[str]:
    """Return the lines under a heading."""
    _before, _, after = text.partition(f"\n## {title}")
    return [line for line in after.partition("\n## ")[0].splitlines()[1:] if line]


def test_names_and_values_that_came_went_and_changed(found: report.Findings) -> None:
    """Each kind under its own heading."""
    text = report.report(found)
    assert ["- came: `NewForCausalLM`", "- went: `OldForCausalLM`"] == section(
        text, "Architectures (2)"
    )
    assert ["- came: `nvfp4`"] == section(text, "KV cache dtypes")
    assert ["- came: `humming`", "- went: `awq`"] == section(text, "Quantisation")
    assert [
        "- changed: `CacheConfig.gpu_memory_utilization` `0.9` becomes `0.92`"
    ] == section(text, "Defaults of configuration classes")
    assert any("256" in one and "128" in one for one in section(text, "Default batch"))


def test_symbols_are_named_with_the_rules_that_rest_on_them(
    found: report.Findings,
) -> None:
    """One moved, one is gone, one has another body; one is the same."""
    text = report.report(found)
    gone = "\n".join(section(text, "Cited symbols that are gone"))
    assert (
        "`v1/worker/memory.py`, with the same body. Rests on it: `c.py::_LIMIT`" in gone
    )
    assert "envs.py::VLLM_GONE`: gone. Rests on it: `d.py`" in gone
    (other,) = section(text, "Cited symbols with another body")
    assert "get_batch_defaults`: another body. Rests on it: `b.py`" in other
    assert "CacheConfig.room" not in text


def test_cases_that_changed_are_listed() -> None:
    """Figures by more than a thousandth, settings, refusals."""
    before = [
        {**CASE, "weights": 1000, "peak": 500, "resolved": {"block_size": 16}},
        {**CASE, "args": {}, "refused": "ValueError: no"},
    ]
    after = [
        {**CASE, "weights": 1000, "peak": 600, "resolved": {"block_size": 32}},
        {**CASE, "args": {}, "weights": 1000},
    ]
    (one, what), (_other, refusal) = answers.changed(before, after)
    assert "Qwen/Qwen3-8B on H100 (dry) a=1" == one
    assert "peak 500 to 600 (+20.0 %); block_size 16 becomes 32" == what
    assert "no longer refused: no" == refusal
    assert [] == list(answers.changed(before, before))


def test_a_case_that_was_lost_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was ended says nothing: that is no refusal of vLLM's."""
    cases = [{**CASE, "gpu": gpu} for gpu in ("L4", "H100", "A100")]
    replies = iter([{"refused": "no figure"}, {"refused": "ValueError: no"}, {}])

    def swept(
        group: list[answers.Row], *_given: object, **_options: object
    ) -> list[answers.Row]:
        return [{**case, **next(replies)} for case in group]

    monkeypatch.setattr(answers.dry_sweep, "swept", swept)
    monkeypatch.setattr(installation, "find", lambda _python: None)
    out = tmp_path / "0.99.0.jsonl"
    kept = list(answers.answered("python", cases, 1.0, out))
    assert ["H100", "A100"] == [row["gpu"] for row in kept]
    assert kept == answers.dry_sweep.rows(out)
    replies = iter([{"weights": 1000}])
    again = list(answers.answered("python", cases, 1.0, out))
    assert ["H100", "A100", "L4"] == [row["gpu"] for row in again]


def test_a_case_is_compared_with_the_planner() -> None:
    """Weights and settings; what agrees is not listed."""
    args = {"max_model_len": 4096, "enforce_eager": True}
    case = {**CASE, "args": args, "weights": 16394146816, "peak": 2256582144}
    row = {**case, "resolved": {"max_model_len": 4096, "dtype": "torch.bfloat16"}}
    assert [] == list(answers.differing([row], "0.33.0"))
    ((_name, what),) = answers.differing([{**row, "weights": 17e9}], "0.33.0")
    assert what.startswith("weights 17,000,000,000")
    ((_name, what),) = answers.differing([{**case, "refused": "ValueError"}], "0.33.0")
    assert "refused: ValueError" == what


def test_weights_without_memory_are_compared_where_nothing_is_quantised() -> None:
    """Kernels have not repacked the others yet."""
    row = {**CASE, "way": "meta", "args": {}, "weights": 16391957056}
    assert [] == list(answers.differing([row], NEWEST))
    ((_name, what),) = answers.differing([{**row, "weights": 17e9}], NEWEST)
    assert what.startswith("weights 17,000,000,000")
    packed = {**row, "weights": 17e9, "resolved": {"quantization": "fp8"}}
    assert [] == list(answers.differing([packed], NEWEST))


def test_a_record_is_kept_and_found_again(
    found: report.Findings, tmp_path: Path
) -> None:
    """The newest that is older than the release."""
    before = replace(found.before, answers=[])
    record.keep(replace(before, release="0.97.0"), tmp_path)
    record.keep(before, tmp_path)
    record.keep(found.after, tmp_path)
    assert before == record.last_before("0.99.0", tmp_path)
    assert "0.97.0" == record.last_before("0.98.0", tmp_path).release
    with pytest.raises(SystemExit, match="record the last one first"):
        record.last_before("0.97.0", tmp_path)


@pytest.mark.parametrize(("name", "least"), [("cases", 41), ("older", 20)])
def test_cases_are_of_both_ways(name: str, least: int) -> None:
    """Each once, and those of one GPU together: vLLM is imported once for them."""
    cases = answers.dry_sweep.rows(answers.CASES.with_name(f"{name}.jsonl"))
    assert {"dry", "meta"} == {case["way"] for case in cases}
    assert len(cases) == len({answers.key(case) for case in cases}) >= least
    places = [(case["way"], case["gpu"]) for case in cases]
    assert len({*places}) == sum(
        one != other for one, other in zip(["", *places], places, strict=False)
    )


def test_what_the_meta_worker_writes_is_read() -> None:
    """The configuration, and the weights where the model could be built."""
    lines = [
        "INFO something",
        '@planner {"event": "resolved", "values": {"block_size": 16}}',
        '@planner {"event": "built", "weights": 5}',
    ]
    assert {"resolved": {"block_size": 16}, "weights": 5} == answers.configured(lines)
    assert {"resolved": {"block_size": 16}} == answers.configured(lines[:2])
    assert "refused" in answers.configured(["ValueError: it is too long"])


def test_the_newest_release_is_recorded() -> None:
    """What the next one is compared with."""
    newest = max(
        (path.stem for path in record.FOLDER.glob("*.json")), key=record.number_of
    )
    last = record.last_before("99.0.0")
    assert isinstance(last, Record)
    assert newest == last.release
    assert len(last.symbols) > 1000
    assert len(last.sentences) > 200


def test_the_planner_answers_as_the_newest_recorded_release() -> None:
    """Settings, weights, peaks and refusals, but for 22 MB of gpt-oss's experts."""
    last = record.last_before("99.0.0")
    assert len(last.answers) >= 53
    ((name, what),) = answers.differing(last.answers, last.release)
    assert name.startswith("openai/gpt-oss-20b on H100 (dry)")
    assert what == "peak 2,958,734,848, planned 2,935,881,728"


def test_an_older_release_only_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answers are kept where they are wanted; nothing else is read or written."""
    asked: list[object] = []

    def answered(*given: object) -> list[answers.Row]:
        asked.extend(given)
        return [{**CASE, "weights": 1000}]

    monkeypatch.setattr(answers, "answered", answered)
    monkeypatch.setattr(installing, "python_of", lambda *_given: "python")
    monkeypatch.setattr(installing, "packages_of", lambda _python: tmp_path)
    cases, out = tmp_path / "cases.jsonl", tmp_path / "0.12.0.jsonl"
    cases.write_text(json.dumps(CASE), encoding="utf-8")
    words = ["0.12.0", "--cases", str(cases), "--answers", str(out)]
    monkeypatch.setattr("sys.argv", ["release", *words])

    program.main()

    assert ["python", [CASE], 300.0, out, None] == asked
    assert [cases] == [*tmp_path.iterdir()]
