"""YAML that every reader reads back as the same values."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import planner
from planner.engine.gpu import GPU
from planner.engine.gpu_text import LONGEST_NAME
from planner.errors import PlannerError
from planner.export import link, read_link, read_yaml
from planner.export.yaml_text import LiteralBlock, yaml_text

LOADERS = [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)]


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("length", [1_022, 1_023, 1_024, 1_025, 5_000])
@pytest.mark.parametrize(
    "value", ["a", 1, {"b": 1}, ["c", {"d": 2}], LiteralBlock("if a:\n    b()\n"), {}]
)
def test_a_long_key_is_read_back(loader: Any, length: int, value: object) -> None:
    """Readers look for its colon 1,024 characters ahead, unless a sign is before it."""
    for key in ("k" * length, "é " + "k" * (length - 2)):
        for given in ({key: value, "z": 1}, {"y": {key: value}}, {"x": [{key: value}]}):
            assert given == yaml.load(yaml_text(given) + "\n", Loader=loader)


def test_a_plan_file_with_long_names_is_read_back() -> None:
    """Those of variables and of settings of the model."""
    plan = planner.plan(
        "Qwen/Qwen3-8B",
        GPU(
            name="G" * LONGEST_NAME,
            total_memory_bytes=80 * 2**30,
            compute_capability=(9, 0),
        ),
        env={"VLLM_" + "Q" * 3000: "1"},
        hf_overrides={"x" * 3000: "y"},
    )
    found = read_yaml(planner.export.yaml(plan)).inputs

    assert plan == found.plan()
    assert plan.gpu == read_link(link(plan)).inputs.gpu


@pytest.mark.parametrize("name", ["G" * (LONGEST_NAME + 1), "\ud800", 7])
def test_a_name_of_a_gpu_that_no_file_takes_is_refused(name: Any) -> None:
    """It was planned and written, and then not read."""
    with pytest.raises(PlannerError, match="A GPU's name"):
        GPU(name=name, total_memory_bytes=2**36, compute_capability=(9, 0))
