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

# Of each release: the cases that it did not answer, and what the planner still misses.
UNANSWERED: dict[str, set[str]] = {}
MISSED: dict[str, dict[str, str]] = {}


def test_there_are_releases() -> None:
    """Three that lie between those of `test_dry_rows`."""
    assert {"0.12.0", "0.22.0", "0.29.0"} <= {*RELEASES}


@pytest.mark.parametrize("release", RELEASES)
def test_every_case_is_answered(release: str) -> None:
    """Once, and every start with figures of weights and of the peak."""
    found = rows(FOLDER / f"{release}.jsonl")
    keys = [answers.key(row) for row in found]
    assert len(keys) == len({*keys})
    assert CASES - UNANSWERED.get(release, set()) == {*keys}
    for row in found:
        if row["way"] == "dry":
            assert row["weights"] > 0
            assert row["peak"] > 0
        else:
            assert row.get("refused") or row["resolved"]["max_model_len"]


@pytest.mark.parametrize("release", RELEASES)
def test_the_planner_answers_as_the_release(release: str) -> None:
    """Settings, weights within a percent, peaks within 0.02 GiB, refusals."""
    found = rows(FOLDER / f"{release}.jsonl")
    assert MISSED.get(release, {}) == dict(answers.differing(found, release))
