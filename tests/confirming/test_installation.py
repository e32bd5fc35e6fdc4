"""Which vLLM would be started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from planner.confirming.installation import find
from planner.errors import PlannerError


def test_no_module_of_the_working_folder_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -c` looks for modules there first, and a folder may be of others."""
    for name in ("json", "importlib", "vllm", "email"):
        (tmp_path / f"{name}.py").write_text(f"open('ran', 'w').write('{name}')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlannerError, match="vLLM is not installed"):
        find(sys.executable)

    assert not (tmp_path / "ran").exists()
