"""Published start-ups of vLLM against their plans."""

import json
from pathlib import Path

from tools.compared import rows_of, summary
from tools.starts import read_starts

SUMMARY = Path(__file__).parents[1] / "planner" / "data" / "accuracy.json"


def test_the_report_is_that_of_this_code() -> None:
    """`make accuracy` was run after the last change to an estimate."""
    rows = rows_of(start for start in read_starts() if start.record["scored"])
    written = json.loads(SUMMARY.read_text(encoding="utf-8"))
    assert written.pop("dry")
    assert summary(rows) == written


def test_the_report_holds_what_was_promised() -> None:
    """Of the KV cache in the median, and of the range."""
    figures = json.loads(SUMMARY.read_text(encoding="utf-8"))
    assert figures["kv_median_error_percent"] <= 1.5
    assert figures["weights_mean_error_gib"] <= 0.05
    assert figures["concurrency_median_error_percent"] <= 2
    assert figures["inside_percent"] >= 90
    assert figures["median_width_gib"] <= 1.2
