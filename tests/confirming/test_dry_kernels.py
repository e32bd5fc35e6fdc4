"""What stands for kernels that a dry run does not compile."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import planner.confirming.dry

INSIDE_VLLM = Path(planner.confirming.dry.__file__).parent / "inside_vllm"


@pytest.fixture
def kernels() -> Iterator[ModuleType]:
    """Import what runs in vLLM's Python; so far it needs the standard library alone."""
    sys.path.insert(0, str(INSIDE_VLLM))
    try:
        yield import_module("dry_kernels")
    finally:
        sys.path.remove(str(INSIDE_VLLM))
        for name in ("dry_kernels", "dry_hooks"):
            sys.modules.pop(name, None)


def test_flashinfer_takes_what_is_planned(kernels: ModuleType) -> None:
    """A plan is a list; that of sparse MLA on Hopper has bytes beside it."""
    module = kernels.Nothing()
    assert module.plan(1, 2) == []
    plan, staged_bytes = module.plan_with_staged_workspace_bytes(1, 2)
    assert ([0] * 18, 0) == (plan, staged_bytes)


def test_other_functions_compute_nothing(kernels: ModuleType) -> None:
    """A workspace that a kernel asks for has no bytes; what is inside is alike."""
    module = kernels.Nothing()
    assert module.get_workspace_size(8) == 0
    assert module.part.run(1) is None
    assert not hasattr(module, "__torch_function__")
