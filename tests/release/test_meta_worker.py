"""What counts as held by a model that is built without memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import planner.confirming.dry

CONFIRMING = Path(planner.confirming.dry.__file__).parents[1]
FOLDERS = (CONFIRMING / "dry" / "inside_vllm", CONFIRMING / "beside_vllm")


@pytest.fixture
def worker(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Import what runs in vLLM's Python; vLLM is only imported when it is asked."""
    before = set(sys.modules)
    for folder in (*FOLDERS, root / "tools"):
        monkeypatch.syspath_prepend(str(folder))
    yield import_module("meta_worker")
    for name in set(sys.modules) - before:
        del sys.modules[name]


def tensor(place: str) -> SimpleNamespace:
    """Return a stand-in for a tensor."""
    return SimpleNamespace(device=SimpleNamespace(type=place))


class Module:
    """Stands in for a model of one module."""

    def __init__(self) -> None:
        self.weight, self.buffer = tensor("meta"), tensor("meta")
        self.inputs = [tensor("meta") for _layer in range(3)]
        self.host, self.device, self.name = tensor("cpu"), SimpleNamespace(), "model"

    def parameters(self) -> list[object]:
        """Return the parameters."""
        return [self.weight]

    def buffers(self) -> list[object]:
        """Return the buffers."""
        return [self.buffer]

    def modules(self) -> list[Module]:
        """Return the module itself."""
        return [self]


def test_tensors_in_plain_lists_are_held_too(worker: ModuleType) -> None:
    """As Qwen3-VL keeps what its encoder hands to deeper layers; the host's are not."""
    model = Module()
    found = {id(one) for one in worker.held(model)}
    assert {id(one) for one in (model.weight, model.buffer, *model.inputs)} == found
