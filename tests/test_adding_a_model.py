"""The example of docs/adding-a-model.md does what its page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import planner

PAGE = Path(__file__).parents[1] / "docs" / "adding-a-model.md"


def test_the_example_runs_and_its_test_passes() -> None:
    """Reader, table and test, as a newcomer would copy them."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    names: dict[str, Any] = {"planner": planner}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    names["test_minnow"]()
    assert names["READERS"] == {"MinnowForCausalLM": names["read_minnow"]}
