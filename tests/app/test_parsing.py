"""Numbers as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.app.widgets.parsing import decimal_number, whole_number

_CASES = json.loads(
    (Path(__file__).parents[1] / "data" / "number_cases.json").read_text(
        encoding="utf-8"
    )
)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: repr(case["text"]))
def test_the_kernel_reads_numbers_as_the_page_does(case: dict[str, object]) -> None:
    """`tests/js/numbers.test.js` holds the page's script to the same table."""
    text = str(case["text"])

    assert case["whole"] == whole_number(text)
    assert case["decimal"] == decimal_number(text)
