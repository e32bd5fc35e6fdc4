"""A served app and a browser for the tests marked `browser`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui import servers

FIRST_CHART_SECONDS = 20


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Headless Chromium from the system."""
    executable = servers.chromium()
    if executable is None:
        pytest.skip("no Chromium on this machine: install the system's chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        driven = playwright.chromium.launch(
            executable_path=executable, args=list(servers.CHROMIUM_FLAGS)
        )
        yield driven
        driven.close()


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
    opened.wait_for_selector(
        ".planner-chart .barlayer .point path", timeout=FIRST_CHART_SECONDS * 1000
    )
    opened.wait_for_selector(".pc-field", timeout=FIRST_CHART_SECONDS * 1000)
    yield opened
    context.close()
