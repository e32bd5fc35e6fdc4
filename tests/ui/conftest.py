"""A served app for the tests marked `browser`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui import servers


@pytest.fixture(scope="session")
def app(tmp_path_factory) -> Iterator[str]:
    """Address of the Voila app, with kernels waiting."""
    folder: Path = tmp_path_factory.mktemp("app")
    with servers.voila(servers.notebook("app", folder)) as address:
        yield address


@pytest.fixture(scope="module")
def page(browser, app) -> Iterator[object]:
    """The app in a browser, with its first chart drawn."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.asked = []
    opened.on("request", lambda request: opened.asked.append(request.url))
    opened.goto(app)
    opened.wait_for_selector(".planner-chart .barlayer .point path")
    opened.wait_for_selector(".pc-field")
    yield opened
    context.close()
