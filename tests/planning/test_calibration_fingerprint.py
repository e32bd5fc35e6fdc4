"""A model's fingerprint: the same in every process, another for another shape."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from enum import Enum

from planner.models import catalogue
from planner.models.families import read
from planner.planning.calibrations.key import fingerprint, plain

TOLD_ELSEWHERE = """
import sys
from planner.models import catalogue
from planner.models.families import read
from planner.planning.calibrations.key import fingerprint
for name in sys.argv[1:]:
    print(fingerprint(read(catalogue.find(name))))
"""
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen3-8B-FP8",
    "deepseek-ai/DeepSeek-V4-Pro",
    "Qwen/Qwen3-VL-32B-Instruct",
)


class _Colour(Enum):
    RED = 1


class _Marker:
    """Something without fields."""


@dataclass(frozen=True)
class _Part:
    name: str
    size: int = 4
    tags: tuple[str, ...] = ()
    memo: dict = field(default_factory=dict)


def test_every_process_finds_the_same():
    """Whatever the seed of its hashes: a record outlives the process."""
    here = [fingerprint(read(catalogue.find(name))) for name in MODELS]
    there = subprocess.run(
        [sys.executable, "-c", TOLD_ELSEWHERE, *MODELS],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "7"},
    )
    assert here == there.stdout.split()
    assert len(MODELS) == len(set(here))


def test_values_become_what_json_holds():
    """Names for what has no fields; a set in order."""
    assert [None, 2.5, "RED"] == plain((None, 2.5, _Colour.RED))
    assert [[1, [2, "x"]], {"b": 1, "2": [3]}] == plain(
        ((1, [2, "x"]), {"b": 1, 2: (3,)})
    )
    assert [["a", "b"], "_Marker", "_Marker"] == plain(({"b", "a"}, _Marker(), _Marker))


def test_a_field_with_its_default_is_left_out():
    """So one more of them, later, changes no fingerprint."""
    assert ["_Part", {"name": "q"}] == plain(_Part("q"))
    told = plain(_Part("q", 8, ("a",), {"x": 1}))
    assert {"name": "q", "size": 8, "tags": ["a"], "memo": {"x": 1}} == told[1]


def test_each_field_of_a_model_counts():
    """An expert more for each token: the same weights, another workspace."""
    files = catalogue.find("Qwen/Qwen3-30B-A3B")
    first = read(files)
    config = {**files.config, "num_experts_per_tok": 4}
    second = read(type(files)(**{**_fields(files), "config": config}))
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(first) == fingerprint(read(files))


def _fields(files):
    return {name: getattr(files, name) for name in type(files).__dataclass_fields__}
