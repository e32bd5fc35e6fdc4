"""A sweep: one plan after the other, and taken up again where it was interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import planner
from planner.confirming import many
from planner.confirming.run import Run
from planner.errors import PlannerError
from tests.starts import a_plan

SHARES = (0.3, 0.4)
pytestmark = pytest.mark.usefixtures("vllm_stand_in")


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Count the starts, by their share of the memory."""
    begun: list[float] = []
    execute = Run.execute

    def counted(self: Run) -> object:
        begun.append(self.plan.settings.gpu_memory_utilization or 0.0)
        return execute(self)

    monkeypatch.setattr(many.Run, "execute", counted)
    return begun


def test_each_plan_is_started_once_and_becomes_a_row(tiny_folder, starts) -> None:
    """Shares of 0.3 and 0.4 of 16 GiB, less the 700 MiB of the stand-in."""
    sweep = planner.confirm_many(
        [a_plan(tiny_folder, share=share) for share in SHARES], is_stored=False
    )

    assert starts == list(SHARES)
    available = [row["measured available_kv_cache_bytes"] for row in sweep.table()]
    assert available == [int(s * (16 << 30)) - (700 << 20) for s in SHARES]
    assert list(sweep.to_frame()["gpu_memory_utilization"]) == list(SHARES)
    assert len(sweep) == 2


def test_what_a_file_holds_already_is_not_started_again(
    tiny_folder,
    starts,
    tmp_path,
) -> None:
    """Also when the last line was torn off by a crash."""
    file = tmp_path / "results.jsonl"
    plans = [a_plan(tiny_folder, share=share) for share in SHARES]
    planner.confirm_many(plans[:1], file, is_stored=False)
    with file.open("a") as handle:
        handle.write('{"asked": {"model"')

    sweep = planner.confirm_many(plans, file, is_stored=False, logs=tmp_path / "logs")

    assert starts == list(SHARES)
    assert len(sweep) == 2
    assert len([1 for line in file.read_text().splitlines() if line.endswith("}")]) == 2
    assert "Starting to load" in (tmp_path / "logs" / "001.log").read_text()
    again = planner.confirm_many(plans, file, is_stored=False)
    assert starts == list(SHARES)
    assert [row.to_dict() for row in again] == [
        json.loads(json.dumps(row.to_dict())) for row in sweep
    ]


def test_a_plan_that_cannot_be_started_does_not_end_the_sweep(
    tiny_folder, tmp_path
) -> None:
    """Its row says why, and it is tried again next time."""
    file = tmp_path / "results.jsonl"
    plans = [a_plan(tiny_folder, share=share) for share in SHARES]
    wrong = planner.confirm_many(plans, file, is_stored=False, python="/bin/false")
    right = planner.confirm_many(plans, file, is_stored=False)

    assert [row.outcome for row in wrong] == ["not started"] * 2
    assert "/bin/false" in wrong[0].problem
    assert "/bin/false" in str(wrong)
    assert all(row.problem == "" for row in right)


def test_a_file_that_cannot_be_written_is_named(tiny_folder, tmp_path) -> None:
    """A folder stands in its place, or the disk is full."""
    with pytest.raises(PlannerError, match="cannot be written"):
        planner.confirm_many([a_plan(tiny_folder)], tmp_path, is_stored=False)
    place = Path("/dev/full")
    if place.exists():
        with pytest.raises(PlannerError, match="cannot be written"):
            planner.confirm_many([a_plan(tiny_folder)], place, is_stored=False)
