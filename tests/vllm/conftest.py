"""Where the real vLLM lies, and what a start of it leaves behind: nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.confirming import installation
from planner.confirming.installation import PYTHON_VARIABLE
from tests.starts import descendants, skip_when_late

collect_ignore = ["adapted.py", "drafted.py", "ray_programs.py"]
"""These run beside vLLM, in its own environment."""
TINY = Path(__file__).resolve().parent.parent / "tiny"


@pytest.fixture(scope="session")
def release() -> str:
    """The release of the vLLM that is installed; none is an error, never a skip."""
    assert os.environ.get(PYTHON_VARIABLE), f"{PYTHON_VARIABLE} names no Python"
    found = installation.find()
    assert found.is_cpu_build
    return found.version


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    skip_when_late()
    before = descendants(os.getpid())
    yield
    assert descendants(os.getpid()) <= before
