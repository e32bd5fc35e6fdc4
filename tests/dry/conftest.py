"""Where vLLM's build for NVIDIA GPUs lies, and that a dry run leaves nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.confirming import installation
from planner.confirming.installation import PYTHON_VARIABLE
from tests.starts import descendants, skip_when_late

TINY = Path(__file__).resolve().parent.parent / "tiny"


@pytest.fixture(scope="session")
def release() -> str:
    """The release of the vLLM that is installed; none is an error, never a skip."""
    assert os.environ.get(PYTHON_VARIABLE), f"{PYTHON_VARIABLE} names no Python"
    found = installation.find()
    assert not found.is_cpu_build
    return found.version


@pytest.fixture(autouse=True)
def _nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    skip_when_late()
    before = descendants(os.getpid())
    # Not in pytest's own folder: the path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="dry-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        assert descendants(os.getpid()) <= before
        assert not list(Path(folder).glob("planner-*"))
