"""The browser-only edition: a folder of files, a browser, and no other machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.ui import lab, lite, servers
from tools.notebooks import NOTEBOOKS

pytestmark = pytest.mark.browser

CHART = ".planner-explorer .planner-chart .barlayer .point path"
LESSONS = {
    1: "workshop/1_where_the_memory_goes.ipynb",
    3: "workshop/3_the_kv_cache.ipynb",
}


@pytest.fixture(scope="module")
def site() -> Any:
    """The folder that `make lite` leaves."""
    return lite.build()


@pytest.fixture(scope="module")
def address(site) -> Iterator[str]:
    """Where the folder is served."""
    with lite.served(site) as served:
        yield served


@pytest.fixture(scope="module")
def context(browser) -> Iterator[Any]:
    """A browser that reaches this machine alone, and what it asked for."""
    driven = browser.browser_type.launch(
        executable_path=servers.chromium(), args=[*servers.CHROMIUM_FLAGS, lite.CUT]
    )
    opened = driven.new_context(viewport={"width": 1280, "height": 900})
    opened.asked = []
    opened.on("request", lambda request: opened.asked.append(request.url))
    yield opened
    driven.close()


@pytest.fixture(scope="module")
def page(context, address) -> Any:
    """JupyterLab with the explorer's notebook, all of whose cells are run."""
    opened = context.new_page()
    lite.open_notebook(opened, address, "explorer.ipynb")
    return opened


def _errors(cells: list[dict[str, Any]]) -> list[str]:
    return [
        f"{cell['source']}: {output['evalue']}"
        for cell in cells
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ]


def _shown(cells: list[dict[str, Any]], words: str) -> list[str]:
    return [
        "".join(output["data"]["text/plain"] for output in cell["outputs"])
        for cell in cells
        if words in cell["source"]
    ]


def test_the_notebooks_are_those_of_the_repository(site) -> None:
    """The explorer and seven lessons, byte for byte, and no solutions."""
    files = site / "files"
    shown = sorted(path.relative_to(files) for path in files.rglob("*.ipynb"))

    assert 8 == len(shown)
    assert all(
        (NOTEBOOKS / path).read_bytes() == (files / path).read_bytes() for path in shown
    )


def test_the_first_page_leads_to_each_notebook(site, address, context) -> None:
    """By its title; nothing but links and text, which axe-core finds right."""
    run_pages = pytest.importorskip("tests.ui.run_pages")
    page = context.new_page()
    page.goto(address)
    links = page.eval_on_selector_all("a", "all => all.map((one) => one.search)")
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found += run_pages.violations(page, "html")
    page.close()

    assert 7 == len(links)
    assert all((site / "files" / one.removeprefix("?path=")).is_file() for one in links)
    assert [] == found


def test_the_explorer_runs_through(page) -> None:
    """Its chart is drawn, and no cell fails."""
    page.locator(CHART).first.wait_for(state="attached")
    cells = lite.outputs(page)

    assert [] == _errors(cells)
    assert len(cells) > 5


def test_the_explorer_s_controls_answer(page) -> None:
    """A number that is typed changes the plan, its button takes it back."""
    explorer = page.locator(".planner-explorer").first
    entry = explorer.get_by_role("textbox", name="max_num_seqs").first
    command = explorer.locator(".pl-command code")
    typed = command.filter(has_text="--max-num-seqs 64").first
    entry.scroll_into_view_if_needed()
    entry.fill("64")
    entry.press("Enter")
    typed.wait_for()
    explorer.locator(".pc-field.is-set .pc-reset").first.click()
    typed.wait_for(state="detached")

    assert "" == entry.input_value()
    # The app's address tells its plan, JupyterLab's does not.
    assert "model=" not in page.url


def test_it_is_dark_where_the_system_is(page) -> None:
    """JupyterLab is light otherwise, until somebody looks for the setting."""
    is_light = "document.body.dataset.jpThemeLight"
    page.wait_for_function(f"{is_light} === 'true'")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{is_light} === 'false'")
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"{is_light} === 'true'")


def test_a_model_of_the_hub_is_refused_in_words(page) -> None:
    """What to do instead; nothing goes on being read."""
    explorer = page.locator(".planner-explorer").first
    name = explorer.locator(".pc-field[data-name=model] input").first
    before = name.input_value()
    name.fill("some/model")
    name.press("Enter")
    explorer.get_by_text("Upload the model's config.json").first.wait_for()
    explorer.get_by_text("Reading some/model").first.wait_for(state="hidden")
    name.fill(before)
    name.press("Enter")

    explorer.get_by_text("Upload the model's").first.wait_for(state="hidden")


def test_a_start_is_shown_that_was_recorded(page) -> None:
    """Nothing can be started in a browser: the panel says so, without a Run."""
    panel = page.locator(".planner-run").last
    panel.get_by_text("Nothing can be started").wait_for()
    panel.get_by_text("A recorded run of").wait_for()
    panel.locator(".barlayer .point path").first.wait_for(state="attached")

    assert not panel.locator(".planner-run-start").is_visible()


@pytest.mark.parametrize("number", LESSONS)
def test_a_lesson_runs_through_untouched(number, page) -> None:
    """Run All: no cell fails, and every check says "not attempted"."""
    lite.open_another(page, LESSONS[number])
    lab.run_open(page)
    cells = lite.outputs(page)
    checks = _shown(cells, ".check(")

    assert [] == _errors(cells)
    assert 4 == len(checks)
    assert all("not attempted" in check for check in checks)


def test_what_was_right_is_kept_over_a_restart(page) -> None:
    """In the browser's own storage, beside the notebooks."""
    lite.open_another(page, LESSONS[3])
    said = lite.ask(page, 'learn.exercise("3.1").check(token="144 KiB")')
    lite.restart(page)
    kept = lite.ask(page, "from planner import learn\nlearn.progress(3)")

    assert said.startswith("✔")
    assert kept.startswith("1 of 4 exercises right")


def test_no_other_host_was_asked_for_anything(address, context) -> None:
    """Over all pages that were opened above."""
    here = (address, "data:", "blob:")

    assert len(context.asked) > 100
    assert [] == [url for url in context.asked if not url.startswith(here)]
