"""Capture sizes, graphs and refusals as vLLM 0.33.0's own configuration gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import planner
from tests.rows import each_row
from tools.configs import folder

DATA = Path(__file__).parents[1] / "data" / "compilation-0.33.0.jsonl"
"""What create_engine_config said, without a GPU: of hand-set sizes, graph modes,
optimization levels and speculative decoding."""
CASES = [json.loads(line) for line in DATA.read_text().splitlines()]
WORDS = 40
_PACKAGE = "Arctic Inference"
"""Where it was recorded, a package was missing that suffix decoding needs."""


def placed(value: Any) -> Any:
    """Return arguments with the folders of configs put in."""
    if isinstance(value, dict):
        return {name: placed(inner) for name, inner in value.items()}
    if isinstance(value, str) and value.startswith("CONFIGS/"):
        return str(folder(value.removeprefix("CONFIGS/")))
    return value


@each_row("case", CASES, ids=lambda c: f"{c['model']} {json.dumps(c['engine_args'])}")
def test_the_configuration_is_vllms(case: dict[str, Any]) -> None:
    """Sizes, mode, lengths, batches, runner and method; or the beginning of its no."""
    expected = dict(case["expect"])
    plan = planner.plan(
        folder(case["model"]), gpu=case["gpu"], **placed(case["engine_args"])
    )
    if _PACKAGE in expected.get("refused", ""):
        assert any("arctic-inference" in note for note in plan.notes)
        return
    if "refused" in expected:
        assert plan.error is not None
        assert "refused" == plan.error.kind
        assert expected["refused"][:WORDS] in plan.error.message
        return
    assert plan.resolved is not None
    speculation = expected.pop("speculation", None)
    found = {name: getattr(plan.resolved, name) for name in expected}
    found["cudagraph_capture_sizes"] = list(found["cudagraph_capture_sizes"])
    assert expected == found
    if speculation is not None:
        assert plan.model is not None
        assert plan.model.speculation is not None
        told = plan.model.speculation
        assert speculation == {name: getattr(told, name) for name in speculation}
