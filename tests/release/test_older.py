"""Older releases: the planner beside the answers of vLLM's own code.

Each file of tests/data/releases is what one release answered to the cases of
`tools/release/older.jsonl`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.dry_sweep import rows
from tools.release import answers

FOLDER = Path(__file__).parents[1] / "data/releases"
RELEASES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
CASES = {answers.key(case) for case in rows(answers.CASES.with_name("older.jsonl"))}

_NANO = "nvidia/NVIDIA-Nemotron-Nano-9B-v2 on H100 (dry)"
_NO_CLASS = (
    "refused: The checkpoint you are trying to load has model type `nemotron_h` but "
    "Transformers does not recognize this architecture."
)
EAGER = " enforce_eager=true max_model_len=4096"

# What the planner misses, by release: the beginning of each difference.
MISSED: dict[str, dict[str, str]] = {
    "0.12.0": {
        # The published file names code for its class, and the copy at hand does not.
        _NANO + EAGER: _NO_CLASS,
    },
}


def test_there_are_releases() -> None:
    """Three that lie between those of `test_dry_rows`."""
    assert {"0.12.0", "0.22.0", "0.29.0"} <= {*RELEASES}


@pytest.mark.parametrize("release", RELEASES)
def test_every_case_is_answered(release: str) -> None:
    """Once; starts with their weights and peak, or a refusal that is known."""
    found = rows(FOLDER / f"{release}.jsonl")
    assert sorted(CASES) == sorted(map(answers.key, found))
    for row in found:
        if row["way"] == "meta":
            # One builds a tensor on the GPU, whatever device it is told.
            is_built = "weights" in row or "device meta" in row.get("unbuilt", "")
            assert row.get("refused") or (row["resolved"] and is_built)
        elif answers.key(row) != _NANO + EAGER or release != "0.12.0":
            assert min(row["weights"], row["peak"]) > 0


@pytest.mark.parametrize("release", RELEASES)
def test_the_planner_answers_as_the_release(release: str) -> None:
    """Settings, weights within a percent, peaks within 0.02 GiB, refusals."""
    found = dict(answers.differing(rows(FOLDER / f"{release}.jsonl"), release))
    known = MISSED.get(release, {})
    assert {*known} == {*found}
    assert all(found[name].startswith(begin) for name, begin in known.items())
