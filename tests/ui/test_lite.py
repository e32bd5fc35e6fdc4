"""The browser-only edition: a folder of files, a browser, and no other machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.ui import lite, servers
from tools.notebooks import NOTEBOOKS

pytestmark = pytest.mark.browser

CHART = ".planner-explorer .planner-chart .barlayer .point path"
LESSONS = {1: "1_where_the_memory_goes", 3: "3_the_kv_cache"}


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


@pytest.fixture
def page(context) -> Iterator[Any]:
    """A page of its own, in the same browser: what is kept, is kept for all."""
    opened = context.new_page()
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
    """The explorer and six lessons, byte for byte, and no solutions."""
    files = site / "files"
    shown = sorted(path.relative_to(files) for path in files.rglob("*.ipynb"))

    assert 7 == len(shown)
    assert all(
        (NOTEBOOKS / path).read_bytes() == (files / path).read_bytes() for path in shown
    )


def test_the_first_page_leads_to_each_notebook(site, address, page) -> None:
    """By its title; nothing but links and text, which axe-core finds right."""
    run_pages = pytest.importorskip("tests.ui.run_pages")
    page.goto(address)
    links = page.eval_on_selector_all("a", "all => all.map((one) => one.search)")
    found = [
        finding
        for scheme in ("light", "dark")
        if page.emulate_media(color_scheme=scheme) is None
        for finding in run_pages.violations(page, "html")
    ]

    assert 7 == len(links)
    assert all((site / "files" / one.removeprefix("?path=")).is_file() for one in links)
    assert [] == found


@pytest.fixture(scope="module")
def explorer(context, address) -> Any:
    """The explorer's notebook with all of its cells run."""
    opened = context.new_page()
    lite.open_notebook(opened, address, "explorer.ipynb")
    return opened


def test_the_explorer_runs_through_and_answers(explorer) -> None:
    """Its chart is drawn, a number that is typed changes the plan, no cell fails."""
    page = explorer
    page.locator(CHART).first.wait_for(state="attached")
    cells = lite.outputs(page)
    entry = page.get_by_role("textbox", name="max_num_seqs").first
    entry.scroll_into_view_if_needed()
    entry.fill("64")
    entry.press("Enter")
    page.locator(".pl-command code", has_text="--max-num-seqs 64").first.wait_for()

    assert [] == _errors(cells)


def test_a_start_is_shown_that_was_recorded(explorer) -> None:
    """Nothing can be started in a browser: the panel says so, and Run is off."""
    panel = explorer.locator(".planner-run").last
    panel.scroll_into_view_if_needed()
    panel.locator(".barlayer .point path").first.wait_for(state="attached")

    assert "nothing can be started" in panel.inner_text()
    assert "A recorded run of" in panel.inner_text()
    assert panel.locator(".planner-run-start").is_disabled()


@pytest.fixture(scope="module", params=LESSONS)
def lesson(request, context, address) -> Iterator[Any]:
    """A lesson with all of its cells run."""
    opened = context.new_page()
    lite.open_notebook(opened, address, f"workshop/{LESSONS[request.param]}.ipynb")
    opened.number = request.param
    yield opened
    opened.close()


def test_a_lesson_runs_through_untouched(lesson) -> None:
    """Run All: no cell fails, and every check says "not attempted"."""
    page = lesson
    cells = lite.outputs(page)
    checks = _shown(cells, ".check(")

    assert [] == _errors(cells)
    assert 4 == len(checks)
    assert all("not attempted" in check for check in checks)


def test_what_was_right_is_kept_over_a_restart(lesson) -> None:
    """In the browser's own storage, beside the notebooks."""
    if lesson.number != 1:
        pytest.skip("one lesson is enough")
    said = lite.ask(lesson, 'learn.exercise("1.2").check(line="c")')
    lite.restart(lesson)
    kept = lite.ask(lesson, "from planner import learn\nlearn.progress(1)")

    assert said.startswith("✔")
    assert kept.startswith("1 of 4 exercises right")


def test_no_other_host_was_asked_for_anything(address, context) -> None:
    """Over all pages that were opened above."""
    here = (address, "data:", "blob:")

    assert len(context.asked) > 100
    assert [] == [url for url in context.asked if not url.startswith(here)]
