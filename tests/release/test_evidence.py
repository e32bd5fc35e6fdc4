"""What the cases of two releases say of a body."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

import planner.confirming
from tests.release.wheels import package
from tools.release import answers, evidence
from tools.release.differing import Difference, differences
from tools.release.evidence import NONE, Evidence

BODY = """
def rows_of(tokens, kept=False):
    rows = tokens // 2
    if kept:
        rows += 1
    return rows
"""
CASE = {"model": "Qwen/Qwen3-8B", "gpu": "H100", "way": "dry"}
A, B, C = ({**CASE, "args": {"a": number}} for number in range(3))


def difference(tmp_path: Path, before: str, after: str) -> Difference:
    """Return the only difference of two edits of BODY."""
    old = package(tmp_path / "old", {"v1/a.py": BODY})
    new = package(tmp_path / "new", {"v1/a.py": BODY.replace(before, after)})
    (found,) = differences(old, new)
    return found


def watched(lines: dict[str, list[int]], *differ: str) -> Evidence:
    """Return evidence of cases by their names."""
    return Evidence(
        ran={case: {"v1/a.py": frozenset(each)} for case, each in lines.items()},
        differ={"peak": frozenset(differ)} if differ else {},
    )


def test_a_body_is_suspected_by_the_lines_that_came(tmp_path: Path) -> None:
    """A case that ran the function and not the edit is no evidence."""
    found = difference(tmp_path, "rows += 1", "rows += 2")
    ran = {"a": [3, 4, 6], "b": [3, 4, 5, 6], "c": [3, 4, 5, 6]}
    assert frozenset({"b", "c"}) == watched(ran).cases(found)
    assert 0 == watched(ran).suspicion(found) == watched(ran, "a").suspicion(found)
    assert 1 == watched(ran, "b", "c").suspicion(found)
    half = watched(ran, "b").suspicion(found)
    assert half == pytest.approx(0.5**0.5)


def test_what_most_cases_have_suspects_no_body(tmp_path: Path) -> None:
    """Four of four differ: every body that they ran would explain it."""
    found = difference(tmp_path, "rows += 1", "rows += 2")
    ran = {case: [3, 4, 5, 6] for case in "abcd"}
    assert 0 == watched(ran, *"abcd").suspicion(found)
    assert 0 < (watched(ran, *"abc").suspicion(found) or 0)


def test_what_no_case_ran_is_not_judged(tmp_path: Path) -> None:
    """Nor is anything where no case was watched."""
    found = difference(tmp_path, "rows += 1", "rows += 2")
    assert watched({"a": [3, 4, 6]}, "a").suspicion(found) is None
    assert NONE.suspicion(found) is None


def test_every_call_depends_on_a_default(tmp_path: Path) -> None:
    """It has no line that a call runs."""
    found = difference(tmp_path, "kept=False", "kept=True")
    assert 1 == watched({"a": [3, 4, 6]}, "a").suspicion(found)


def test_evidence_is_read_from_answers_and_what_they_ran(tmp_path: Path) -> None:
    """Differences of one kind are one, whatever their figures."""
    before = [{**A, "peak": 500}, {**B, "peak": 700}]
    after = [{**A, "peak": 600}, {**B, "peak": 900}, {**C, "peak": 100}]
    ran = tmp_path / "ran.jsonl"
    ran.write_text(
        "\n".join(
            json.dumps({"case": answers.key(case), "ran": {"v1/a.py": [3]}})
            for case in (A, B, C)
        ),
        encoding="utf-8",
    )
    found = evidence.read(ran, before, after)
    both = frozenset(map(answers.key, (A, B)))
    assert [both] == [*found.differ.values()]
    assert both == {*found.ran}
    assert {} == evidence.read(tmp_path / "none", before, after).ran
    packed = tmp_path / "ran.json.xz"
    evidence.keep(found, {"v1/a.py"}, packed)
    assert found == evidence.read(packed, before, after)
    evidence.keep(found, (), packed)
    assert [{}, {}] == [*evidence.read(packed, before, after).ran.values()]


@pytest.fixture
def watch(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """Import what watches a start, beside a vLLM of one module."""
    before = set(sys.modules)
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text(dedent(BODY), encoding="utf-8")
    beside = Path(planner.confirming.__file__).parent / "beside_vllm"
    for folder in (beside, root / "tools", tmp_path):
        monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    yield import_module("dry_watch")
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("way", ["_by_line", "_by_frame"])
def test_the_lines_that_ran_are_reported(
    watch: ModuleType,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of vLLM alone, before and after Python 3.12."""
    if way == "_by_line" and not hasattr(sys, "monitoring"):
        pytest.skip("Python 3.12 watches lines")
    monkeypatch.setattr(watch, "_by_line", getattr(watch, way))
    monkeypatch.setattr(watch, "_by_frame", getattr(watch, way))
    module = import_module("vllm")
    trace = sys.gettrace()
    with watch.watched():
        assert 2 == module.rows_of(4)
    sys.settrace(trace)
    reported = capsys.readouterr().out
    assert '{"event": "ran", "lines": {"__init__.py": [3, 4, 6]}}' in reported
