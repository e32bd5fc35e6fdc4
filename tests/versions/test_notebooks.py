"""The explorer in classic Notebook 6.5 and Notebook 7, with the versions Colab has.

`make test-versions` installs the environments; PLANNER_VERSIONS names their folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ui import lab, servers

pytestmark = pytest.mark.browser

ENVIRONMENTS = os.environ.get("PLANNER_VERSIONS", "")
CELLS = ("import planner\n\nplanner.Explorer()",)
CONNECTED = "() => window.Jupyter?.notebook?.kernel?.is_connected?.()"
OURS = ("planner", "anywidget", "ipywidgets", "widget", "comm", "plotly")


def _in_classic(page: Any, address: str, notebook: Path) -> None:
    page.set_default_timeout(lab.SLOW)
    page.goto(f"{address}notebooks/{notebook.name}")
    page.wait_for_function(CONNECTED)
    # The manager of widgets answers only after its extension is loaded.
    page.wait_for_function(
        "() => Jupyter.notebook.kernel.comm_manager.targets['jupyter.widget']"
    )
    page.evaluate("() => Jupyter.notebook.execute_all_cells()")


PLACES = {
    "colab-6": (servers.notebook6, _in_classic),
    "colab-7": (servers.notebook7, lab.run_all_in_notebook7),
}


@pytest.fixture(scope="module", params=PLACES)
def page(browser, tmp_path_factory, request) -> Iterator[Any]:
    """A notebook whose one cell shows the explorer, and what its console said."""
    python = Path(ENVIRONMENTS, request.param, "bin", "python")
    if not ENVIRONMENTS or not python.exists():
        pytest.skip("`make test-versions` installs the environments")
    serve, run_all = PLACES[request.param]
    folder = tmp_path_factory.mktemp("notebook")
    path = servers.write("explorer", folder, CELLS)
    with serve(folder, python=str(python)) as address:
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        opened = context.new_page()
        opened.said = []
        opened.on("pageerror", lambda error: opened.said.append(str(error)))
        opened.on(
            "console",
            lambda said: said.type == "error" and opened.said.append(said.text),
        )
        run_all(opened, address, path)
        bars = opened.locator(".planner-chart .barlayer .point path").first
        bars.wait_for(state="attached", timeout=lab.SLOW)
        yield opened
        context.close()


def test_the_explorer_draws(page) -> None:
    """Bars and a verdict."""
    verdict = page.locator(".planner-verdict", has_text="Fits").first
    verdict.wait_for(timeout=lab.SLOW)

    assert page.locator(".planner-chart .barlayer .point path").count() > 3


def test_a_slider_changes_the_plan(page) -> None:
    """Through the kernel and back: the command holds the new value."""
    slider = page.get_by_role("slider", name="gpu_memory_utilization").first
    slider.focus()
    before = int(slider.input_value())
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    line = page.locator(".pl-command code", has_text="--gpu-memory-utilization")
    line.first.wait_for(timeout=lab.SLOW)

    assert before - 3 == int(slider.input_value())


def test_the_console_says_no_error_of_ours(page) -> None:
    """What Jupyter itself says of its own files is not counted."""
    ours = [said for said in page.said if any(word in said.lower() for word in OURS)]

    assert [] == ours
