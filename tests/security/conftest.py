"""The published app, as `planner app --published` serves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.client import Visitor
from tests.security.server import Served, served


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that nobody but these tests asks."""
    folder: Path = tmp_path_factory.mktemp("published")
    with served(folder) as running:
        yield running


@pytest.fixture
def visitor(app: Served) -> Iterator[Visitor]:
    """Somebody with a page."""
    here = Visitor.at(app.address)
    yield here
    here.leave()


@pytest.fixture
def other(app: Served) -> Iterator[Visitor]:
    """Somebody else with a page."""
    there = Visitor.at(app.address)
    yield there
    there.leave()
