"""tools/measure.py: cases in, rows of measured starts out, which the report reads."""

from __future__ import annotations

import json

import pytest

from planner.engine.releases import NEWEST
from planner.units import GIB, MIB
from tools import measure, starts

pytestmark = pytest.mark.usefixtures("vllm_stand_in")


def test_each_case_becomes_a_row_that_the_accuracy_report_can_read(
    tiny_folder, tmp_path, monkeypatch
) -> None:
    """A tenth and a fifth of this machine, less the 700 MiB of the stand-in."""
    monkeypatch.setenv("PLANNER_CALIBRATION", "off")  # taken back after the test
    cases = [
        {
            "id": f"tiny-{share}",
            "config": f"somewhere/{tiny_folder.name}",
            "args": {"gpu_memory_utilization": share, "dtype": "float32"},
        }
        for share in (0.1, 0.2)
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases))
    out = tmp_path / "out"

    status = measure.main([str(file), str(tiny_folder.parent), str(out)])

    lines = (out / "measured.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert status == 0
    assert [row["id"] for row in rows] == ["own-tiny-0.1", "own-tiny-0.2"]
    assert rows[0]["vllm_version"] == NEWEST
    assert rows[0]["date"]
    left_bytes = int(0.1 * 16 * GIB) - 700 * MIB
    assert rows[0]["measured"]["available_kv_gib"] == left_bytes / GIB
    assert len(list((out / "logs").iterdir())) == 2
    assert {"model", "args", "scored", "total_gpu_gib", "measured"} <= set(rows[0])


def test_own_starts_are_planned_beside_the_published_ones(tmp_path) -> None:
    """One of Qwen3-8B on an H100, as a row of `planner/data/measured/` would be."""
    row = {
        "id": "own-dense",
        "config": "Qwen--Qwen3-8B",
        "gpu": "H100",
        "total_gpu_gib": 79.0,
        "vllm_version": "0.33.0",
        "entrypoint": "llm",
        "scored": True,
        "model_certain": True,
        "args": {"max_model_len": 1024},
        "measured": {"available_kv_gib": 70.0},
    }
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "h100.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "corpus.jsonl").write_text("")

    found = starts.read_starts(tmp_path / "corpus.jsonl", tmp_path / "own")

    assert [start.name for start in found] == ["own-dense"]
    assert found[0].plan.gpu.total_memory_bytes == 79 << 30
    assert found[0].plan.entrypoint == "llm"
