"""What users have of older versions is read, and what goes warns for a release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import planner
from planner.errors import PlannerError
from planner.export.plan_file import read_yaml
from planner.export.reading_links import read_link
from planner.memory.account import Basis
from planner.planning.calibrations import key
from planner.planning.calibrations.store import add_exported, everything
from tests.conftest import ROOT

OLDER = ROOT / "tests" / "data" / "older"
"""As 0.1.0 wrote them before its first release; never written again."""


@pytest.mark.parametrize(
    "path", sorted(OLDER.glob("plan-*.yaml")), ids=lambda p: p.stem
)
def test_a_plan_file_of_the_first_version_is_read(path: Path) -> None:
    """With every part of it, and it is planned."""
    read = read_yaml(path.read_text(encoding="utf-8"))
    plan = read.inputs.plan()

    assert plan.error is None or plan.error.kind != "refused", plan.error
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("  max_model_len: "):
            assert plan.resolved.max_model_len == int(line.partition(": ")[2])


def test_the_figures_of_the_first_plan_have_kept_their_names() -> None:
    """A program that reads the JSON still finds every figure of that version."""
    before = json.loads((OLDER / "plan-figures-0.1.json").read_text(encoding="utf-8"))
    read = read_yaml((OLDER / "plan-0.1.yaml").read_text(encoding="utf-8"))
    now = read.inputs.plan().to_dict()

    assert [name for name in before if name not in now] == []
    assert now["weights_bytes"] == before["weights_bytes"]
    assert now["blocks_per_request"] == before["blocks_per_request"]


def test_a_link_of_the_first_version_opens_the_same_plan() -> None:
    """Nothing of it is ignored."""
    link = (OLDER / "link-0.1.txt").read_text(encoding="utf-8").strip()
    found = read_link(link)
    written = read_yaml((OLDER / "plan-0.1.yaml").read_text(encoding="utf-8"))

    assert found.ignored == ()
    assert found.inputs.changed(entrypoint="serve") == written.inputs


def test_calibrations_of_the_first_version_are_read_and_used() -> None:
    """The plan of the same start takes what was measured then."""
    start = {"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H100"}
    start["vllm_version"] = json.loads(
        (OLDER / "calibrations-0.1.json").read_text(encoding="utf-8")
    )["records"][0]["vllm_version"]
    before = planner.plan(**start)
    added, _ = add_exported(OLDER / "calibrations-0.1.json")
    after = planner.plan(**start)

    assert 1 == added
    assert "meta-llama/Llama-3.1-8B-Instruct" == everything().records[0].model_name
    peaks = [
        next(line for line in plan.ranks[0].lines if line.name == "peak activation")
        for plan in (before, after)
    ]
    assert [line.basis for line in peaks] == [Basis.FORMULA, Basis.MEASURED]


def test_a_file_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    """The control of the test before."""
    path = tmp_path / "other.json"
    path.write_text('{"kind": "another program", "schema": 1, "records": []}')

    with pytest.raises(PlannerError):
        add_exported(path)


def test_a_renamed_name_warns_and_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one release; the warning names the line that has to change."""
    monkeypatch.setitem(planner._RENAMED, "make_plan", "plan")
    with pytest.warns(DeprecationWarning, match=r"Use planner\.plan\.") as said:
        found = planner.make_plan

    assert found is planner.plan
    assert __file__ == said[0].filename


def test_a_name_is_never_both_old_and_new() -> None:
    """What is renamed is not public any more, and its new name is."""
    assert not set(planner._RENAMED) & set(planner.__all__)
    assert set(planner._RENAMED.values()) <= set(planner.__all__)


def test_no_resolved_setting_is_added_without_a_thought_for_what_is_stored() -> None:
    """What the first record lacks is named in `_ADDED`, or none would match."""
    text = (OLDER / "calibrations-0.1.json").read_text(encoding="utf-8")
    written = set(json.loads(text)["records"][0]["settings"])

    assert set(key._RESOLVED) - written <= key._ADDED | {"max_model_len"}
    assert not key._ADDED & written


@pytest.mark.parametrize(
    "change",
    [
        {"enforce_eager": True},
        {"compilation_config": {"cudagraph_mode": "NONE"}},
        {"optimization_level": 0},
        {"max_num_seqs": 256},
    ],
    ids=str,
)
def test_an_older_calibration_is_not_used_for_another_start(change) -> None:
    """Settings that decide the graphs are compared, though it has no mode of them."""
    add_exported(OLDER / "calibrations-0.1.json")
    plan = planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="H100", **change)
    lines = {line.name: line for line in plan.ranks[0].lines}

    assert lines["peak activation"].basis is not Basis.MEASURED
