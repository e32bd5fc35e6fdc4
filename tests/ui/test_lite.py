"""The browser-only edition: a folder of files, a browser, and no other machine.

One page of JupyterLab and one of the app, which the tests share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.ui import lab, lite, servers
from tools.notebooks import NOTEBOOKS

expect = pytest.importorskip("playwright.sync_api").expect

# Building the site takes minutes; tests/test_in_browser.py guards each change.
pytestmark = [pytest.mark.browser, pytest.mark.nightly]

BARS = ".planner-chart .barlayer .point path"
CHART = f".planner-explorer {BARS}"
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


@pytest.fixture(scope="module")
def app(context, address) -> Iterator[Any]:
    """The first page, its controls alive, and what went wrong in it."""
    opened = context.new_page()
    opened.set_default_timeout(lite.SLOW)
    opened.said = []
    opened.on("pageerror", lambda error: opened.said.append(str(error)))
    opened.goto(address)
    opened.locator(f".planner-explorer:not(.planner-snapshot) {BARS}").first.wait_for(
        state="attached"
    )
    yield opened
    opened.close()


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


def test_the_first_page_is_the_app(app) -> None:
    """Its controls answer, its address is a link to the plan; axe-core is content."""
    run_pages = pytest.importorskip("tests.ui.run_pages")
    entry = app.get_by_role("textbox", name="max_num_seqs").first
    entry.fill("64")
    entry.press("Enter")
    app.locator(".pl-command code", has_text="--max-num-seqs 64").first.wait_for()
    app.wait_for_function("window.location.search.includes('max_num_seqs=64')")
    # Advice is pale while it is counted anew.
    app.locator(".planner-advice[aria-busy=true]").wait_for(state="detached")
    found = []
    for scheme in ("light", "dark"):
        app.emulate_media(color_scheme=scheme)
        found += run_pages.violations(app, "html")

    assert [] == found
    assert [] == app.said


def test_a_link_opens_its_plan_in_the_app(app, address) -> None:
    """And no first chart of another plan is there before."""
    app.goto(f"{address}?model=Qwen/Qwen3-8B&gpu=L4&max_model_len=8192")
    app.locator(".pl-subject", has_text="Qwen/Qwen3-8B on L4").first.wait_for()
    app.locator(CHART).first.wait_for(state="attached")

    assert "max_model_len=8192" in app.url


def test_the_app_fits_a_phone(app) -> None:
    """Nothing is wider than the screen, and the chart is there."""
    app.set_viewport_size({"width": 390, "height": 844})
    app.locator(CHART).first.wait_for(state="attached")
    width = app.evaluate("document.documentElement.scrollWidth")
    app.set_viewport_size({"width": 1280, "height": 900})

    assert 390 == width


def test_the_app_leads_to_each_lesson_and_the_documentation(site, app) -> None:
    """One click away, inside the site."""
    links = app.locator(".planner-site a").evaluate_all(
        "all => all.map((one) => one.getAttribute('href'))"
    )
    lessons = [one.partition("?path=")[2] for one in links if "?path=workshop/" in one]

    assert 7 == len(lessons)
    assert all((site / "files" / one).is_file() for one in lessons)
    assert "docs/index.html" in links
    assert (site / "docs" / "glossary.html").is_file()


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

    expect(entry).to_have_value("")
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


def test_a_lesson_leads_to_the_documentation(page, address) -> None:
    """What it names for further reading is a page of the site, in a tab of its own."""
    lite.open_another(page, LESSONS[1])
    page.evaluate(
        "const { content } = window.jupyterapp.shell.currentWidget;"
        "content.scrollToItem(content.widgets.length - 3)"
    )
    with page.expect_popup() as opened:
        page.get_by_text("docs/glossary.md").first.click()
    opened.value.get_by_role("heading", name="Glossary").first.wait_for()
    place = opened.value.url
    opened.value.close()

    assert f"{address}docs/glossary.html" == place


def test_what_was_right_is_kept_over_a_restart(page) -> None:
    """In the browser's own storage, beside the notebooks."""
    lite.open_another(page, LESSONS[3])
    said = lite.ask(page, 'learn.exercise("3.1").check(token="144 KiB")')
    lite.restart(page)
    kept = lite.ask(page, "from planner import learn\nlearn.progress(3)")

    assert said.startswith("✔")
    assert kept.startswith("1 of 4 exercises right")


def test_open_lessons_share_one_python(page) -> None:
    """Whatever was opened above: a kernel for each would fill a laptop."""
    running = "[...window.jupyterapp.serviceManager.%s.running()].length"

    assert 3 == page.evaluate(running % "sessions")
    assert 1 == page.evaluate(running % "kernels")
    assert 1 == len(page.workers)


def test_no_other_host_was_asked_for_anything(address, context) -> None:
    """Over all pages that were opened above."""
    here = (address, "data:", "blob:")

    assert len(context.asked) > 100
    assert [] == [url for url in context.asked if not url.startswith(here)]


def test_a_lesson_has_the_whole_screen_of_a_phone(context, address) -> None:
    """No side bars, the button that runs a cell, and a link to the next lesson."""
    page = context.new_page()
    page.set_viewport_size({"width": 390, "height": 844})
    lite.open_notebook(page, address, LESSONS[1])
    shown = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    page.locator(".jp-NotebookPanel-toolbar [data-jp-item-name=run]").wait_for()
    width = shown.evaluate("(panel) => panel.offsetWidth")
    page.get_by_role("link", name="2. Weights").click()
    page.wait_for_function(lite._IS_THERE, arg="2_weights.ipynb")
    page.close()

    assert 390 == width
