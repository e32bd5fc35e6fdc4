"""What is alive at the peak of a profile run, from PyTorch's record of allocations."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import planner.confirming.dry
from planner.confirming.dry.result import Alive
from tests.confirming.test_dry_result import dry, worker

CONFIRMING = Path(planner.confirming.dry.__file__).parent.parent
FOLDERS = (CONFIRMING / "dry/inside_vllm", CONFIRMING / "beside_vllm")
MLP = {"filename": "/env/vllm/layers/linear.py", "line": 7, "name": "apply"}
MODEL = {"filename": "/env/vllm/models/qwen3.py", "line": 40, "name": "forward"}
TORCH = {"filename": "/env/torch/functional.py", "line": 9, "name": "linear"}


@pytest.fixture
def trace() -> Iterator[ModuleType]:
    """Import what runs in vLLM's Python; it needs the standard library alone."""
    sys.path[:0] = map(str, FOLDERS)
    try:
        yield import_module("dry_trace")
    finally:
        del sys.path[: len(FOLDERS)], sys.modules["dry_trace"]


def alloc(addr: int, size: int, *frames: dict[str, Any]) -> dict[str, Any]:
    """An event as PyTorch records it, the innermost frame first."""
    return {"action": "alloc", "addr": addr, "size": size, "frames": list(frames)}


def free(addr: int) -> dict[str, Any]:
    """The end of a block."""
    return {"action": "free_completed", "addr": addr, "size": 0}


def test_the_peak_is_where_most_is_in_use(trace: ModuleType) -> None:
    """8 and 2 of one line, and 4; not the 9 that come when the 8 are gone."""
    events = [
        alloc(1, 8, TORCH, MLP, MODEL),
        alloc(2, 2, TORCH, MLP, MODEL),
        alloc(3, 4, TORCH, MODEL),
        free(1),
        alloc(1, 7, MODEL),
        free(99),  # of before the record
    ]
    assert trace.alive_at_peak(events) == [
        {
            "size_bytes": 10,
            "count": 2,
            "place": "vllm/layers/linear.py:7 apply < vllm/models/qwen3.py:40 forward",
        },
        {"size_bytes": 4, "count": 1, "place": "vllm/models/qwen3.py:40 forward"},
    ]


def test_what_nothing_follows_is_a_peak_too(trace: ModuleType) -> None:
    """The last block is never freed; one without a frame has no place."""
    found = trace.alive_at_peak([alloc(1, 8), free(1), alloc(2, 9, TORCH)])
    assert [(one["size_bytes"], one["place"]) for one in found] == [(9, "unknown")]
    assert trace.alive_at_peak([]) == []


def test_a_run_shows_what_was_traced() -> None:
    """The largest first, and the rest as a sum; untraced runs say nothing of it."""
    alive = tuple(
        Alive(size_bytes=1 << 20, count=2, place=f"x.py:{n}") for n in range(40)
    )
    traced = dry(worker(), alive=alive)
    assert re.search(r"\nx.py:0 +2 +1.0 MiB\n", str(traced))
    assert re.search(r"\n10 more lines +10.0 MiB\n", str(traced))
    assert len(traced.to_dict()["alive"]) == 40
    assert "Alive at" not in str(dry(worker()))
    assert "alive" not in dry(worker()).to_dict()
