"""Starts that people shared count in the accuracy report."""

import pytest

from planner.confirming.calibration import record_of
from planner.confirming.calibration_sharing import shared_of, text_of
from planner.units import GIB
from tests import measured
from tools.compared import rows_of
from tools.shared_starts import shared_records
from tools.starts import read_starts


def test_a_folder_of_shared_starts_counts_in_the_report(tmp_path, capsys) -> None:
    """Each is a row beside the corpus; what is none is named and left out."""
    plan = measured.plan(max_num_seqs=8)
    record = record_of(plan, measured.start(plan))
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "one.json").write_text(text_of(shared_of(record)))
    (folder / "two.json").write_text("{}")
    (tmp_path / "corpus.jsonl").write_text("")
    starts = read_starts(tmp_path / "corpus.jsonl", tmp_path, folder)
    (row,) = rows_of(starts)

    assert ("shared-one", "H100", plan.vllm_version) == (
        row.start,
        row.gpu,
        row.release,
    )
    left = measured.worker(plan).available_kv_cache_bytes
    assert left / GIB == row.measured_gib
    kept = plan.ranks[0].available_kv_cache_bytes / GIB
    assert kept == pytest.approx(row.planned_gib, abs=0.001)
    assert 0 == row.line_errors_gib["weights"]
    assert "two.json is not a shared start" in capsys.readouterr().err


def test_without_a_folder_nothing_is_shared(tmp_path) -> None:
    """As in a fresh clone."""
    assert [] == list(shared_records(tmp_path / "none"))
