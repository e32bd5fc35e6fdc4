"""The documentation site in a browser, opened from disk: axe-core, search, requests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import docs_site
from tests.ui.run_pages import in_lines, violations

pytestmark = pytest.mark.browser
axe_core = pytest.importorskip("axe_playwright_python.sync_playwright")

LANES = max(os.cpu_count() or 1, 2)
"""Pages at once: looking at contrast takes a processor for seconds."""
TYPICAL = (
    "index.html",
    "confirm.html",
    "app.html",
    "reference/command-line.html",
    "reference/confirming.html#planner.confirm",
)
"""The first page, a long text with tables, pictures, commands, a signature that
a link led to."""


@pytest.fixture(scope="module")
def folder() -> Path:
    """Return the site as `make docs` builds it."""
    return docs_site.built().folder


def _opened(browser, width, scheme):
    """Return an empty page of this size and colour, and the list of its requests."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.route("http*://**", lambda route: route.abort())
    return page, asked


def _too_wide(page) -> int:
    return page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


def _begin(page, file):
    """Open a file and let axe-core look at it meanwhile."""
    page.goto(file.as_uri())
    page.evaluate(axe_core.Axe().axe_script)
    page.evaluate(
        """() => { window.looking = axe.run("html", {resultTypes: ["violations"]}); }"""
    )


@pytest.mark.nightly
def test_every_page_passes_axe_core(browser, folder):
    """In light, at a desk; no page asks for more than the site's own files."""
    lanes = [_opened(browser, 1280, "light") for _ in range(LANES)]
    found = {}
    for files in batched(docs_site.built().pages):
        for (page, _asked), file in zip(lanes, files, strict=False):
            _begin(page, file)
        for (page, _asked), file in zip(lanes, files, strict=False):
            looked = page.evaluate("async () => (await window.looking).violations")
            found[file.relative_to(folder).as_posix()] = in_lines(looked)
    asked = [url for _page, urls in lanes for url in urls]
    for page, _asked in lanes:
        page.context.close()

    assert {} == {name: said for name, said in found.items() if said}
    assert {name.partition("#")[0] for name in TYPICAL} < set(found)
    assert [] == [url for url in asked if not url.startswith(folder.as_uri())]


def batched(pages):
    """Return the pages, as many at once as there are lanes."""
    return [pages[n : n + LANES] for n in range(0, len(pages), LANES)]


@pytest.mark.parametrize(
    ("width", "scheme"),
    [pytest.param(1280, "dark", marks=pytest.mark.nightly), (390, "light")],
)
def test_typical_pages_pass_axe_core_in_the_dark_and_on_a_phone(
    browser, folder, width, scheme
):
    """The theme follows the system, and nothing is wider than the screen."""
    page, _asked = _opened(browser, width, scheme)
    found, themes, too_wide = [], set(), {}
    for name in TYPICAL:
        page.goto(f"{folder.as_uri()}/{name}")
        found += violations(page, "html")
        themes.add(page.evaluate("document.documentElement.dataset.theme"))
        too_wide[name] = _too_wide(page)
    page.context.close()

    assert [] == found
    assert {scheme} == themes
    assert dict.fromkeys(TYPICAL, 0) == too_wide


def test_menus_and_search_pass_axe_core_on_a_phone(browser, folder):
    """Opened and left from the keyboard; the first key leads past the head."""
    page, _asked = _opened(browser, 390, "light")
    page.goto((folder / "confirm.html").as_uri())
    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.textContent.trim()")
    found, opened = [], []
    for button in ("Site navigation", "On this page"):
        page.get_by_role("button", name=button).press("Enter")
        opened.append(page.locator("dialog[open]").count())
        found += violations(page, "html")
        page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    opened.append(page.locator("dialog[open]").count())
    found += violations(page, "html")
    page.keyboard.press("Escape")
    left = page.locator("dialog[open]").count()
    page.context.close()

    assert "Skip to main content" == first
    assert [1, 1, 1] == opened
    assert 0 == left
    assert [] == found


def test_the_search_finds_an_argument_offline(browser, folder):
    """From the keyboard, on a page opened from disk."""
    page, asked = _opened(browser, 1280, "light")
    page.goto((folder / "index.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type("max_num_seqs")
    page.keyboard.press("Enter")
    page.locator("#search-results li a").first.wait_for()
    found = page.locator("#search-results li > a")
    places = found.evaluate_all("links => links.map(link => link.href)")
    page.context.close()

    reference = (folder / "reference" / "arguments.html").as_uri()
    assert f"{reference}#argument-max-num-seqs" == places[0]
    assert len(places) > 1
    assert [] == [url for url in asked if not url.startswith(folder.as_uri())]
