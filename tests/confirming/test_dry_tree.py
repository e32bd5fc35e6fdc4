"""What a dry run says of the model that it has loaded."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import planner.confirming.dry

INSIDE_VLLM = Path(planner.confirming.dry.__file__).parent / "inside_vllm"


def test_a_class_that_checks_blocks_before_they_are_sized_ends_no_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """0.31.0's indexer of GLM-5.3-Flash: block_size is still 16 when it is asked."""
    monkeypatch.syspath_prepend(str(INSIDE_VLLM))
    tree = import_module("dry_tree")
    sys.modules.pop("dry_tree")

    def get_kv_cache_spec() -> dict[str, object]:
        raise AssertionError("block_size=16 -> storage_block_size=4")

    runner = SimpleNamespace(get_kv_cache_spec=get_kv_cache_spec)
    assert {"kinds": [], "layers": {}} == tree._caches(runner)
