"""All lessons in a browser, solved and run: axe-core, and nothing out of reach."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from nbconvert import HTMLExporter

from tests.lesson_runs import SOLVED, ran_all
from tests.ui import lab, servers
from tests.ui.run_pages import violations

pytestmark = pytest.mark.browser
pytest.importorskip("axe_playwright_python")

WAYS = [
    *((edition.path.stem, "light", 1280) for edition in SOLVED),
    ("3_the_kv_cache", "dark", 390),
    ("6_a_capacity_plan", "dark", 390),
]
WIDGETS = "5_confirm"
OURS = ".jp-OutputArea-output :is(.pl-plan, .planner-run)"

# A box that is cut off sideways is out of reach of the keyboard unless it has focus.
_CUT_OFF = """(boxes) => [...document.querySelectorAll(boxes)]
  .filter((box) => box.scrollWidth > box.clientWidth + 1 && box.tabIndex < 0
    && ['auto', 'scroll', 'hidden'].includes(getComputedStyle(box).overflowX))
  .map((box) => `${box.className}: ${box.scrollWidth} in ${box.clientWidth}`)"""
_BOXES = (
    ".jp-RenderedMarkdown, .jp-OutputArea-output:has(.pl-plan), "
    ".jp-OutputArea-output .pl-plan *"
)
# What is wider than a cell scrolls in a box of its own, with a shadow at its end.
_TOO_WIDE = """() => [...document.querySelectorAll('.jp-OutputArea-output')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => `${one.scrollWidth} in ${one.clientWidth}: ${one.innerText}`)"""
# As a learner has it on a small screen: Jupyter's list of files takes 250 pixels.
_DARK_WITHOUT_FILES = """async () => {
  const { commands, shell } = window.jupyterapp;
  await commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' });
  shell.collapseLeft();
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[tuple[str, str], Any]:
    """Return the file of each lesson, in both themes, without Jupyter's own code."""
    folder = tmp_path_factory.mktemp("lessons")
    files = {}
    for edition, ran in zip(SOLVED, ran_all(SOLVED), strict=True):
        for theme in ("light", "dark"):
            ours = HTMLExporter(
                exclude_input=True, exclude_output_prompt=True, theme=theme
            )
            page, _resources = ours.from_notebook_node(ran.notebook)
            file = folder / f"{edition.path.stem}-{theme}.html"
            file.write_text(page, encoding="utf-8")
            files[edition.path.stem, theme] = file
    return files


@pytest.mark.parametrize(("lesson", "theme", "width"), WAYS)
def test_a_lesson_passes_axe_core(browser, pages, lesson, theme, width) -> None:
    """Text, checks, bars and tables, as Jupyter renders them; nothing is cut off."""
    context = browser.new_context(
        viewport={"width": width, "height": 720}, color_scheme=theme, bypass_csp=True
    )
    page = context.new_page()
    # What nbconvert would load from elsewhere.
    page.route("http*://**", lambda route: route.abort())
    page.goto(pages[lesson, theme].as_uri())
    page.locator(".pl-verdict").first.wait_for()
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    found = violations(page, "main")
    cut_off = page.evaluate(_CUT_OFF, _BOXES)
    context.close()

    assert ("rgb(255, 255, 255)" == background) is (theme == "light")
    assert [] == found
    assert [] == cut_off


@pytest.fixture(scope="module")
def notebook_page(browser, tmp_path_factory) -> Iterator[Any]:
    """The lesson with widgets, all of its cells run in JupyterLab."""
    folder = tmp_path_factory.mktemp("lab")
    (edition,) = (one for one in SOLVED if one.path.stem == WIDGETS)
    shutil.copy(edition.path, folder)
    with servers.jupyterlab(folder) as address:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        lab.run_all(page, address, folder / edition.path.name)
        page.locator(".planner-run-start").first.wait_for()
        yield page
        context.close()


def test_a_lesson_in_jupyterlab_passes_axe_core(notebook_page) -> None:
    """What we draw into it, the panel that starts vLLM among it; Jupyter's is not."""
    drawn = notebook_page.locator(OURS).count()

    assert drawn >= 12
    assert [] == notebook_page.evaluate(_TOO_WIDE)
    assert [] == violations(notebook_page, OURS)


def test_a_lesson_in_a_dark_and_narrow_jupyterlab_passes_too(notebook_page) -> None:
    """Between both of Jupyter's side bars some 290 pixels are left."""
    notebook_page.evaluate(_DARK_WITHOUT_FILES)
    notebook_page.locator("body[data-jp-theme-light=false]").wait_for(state="attached")
    notebook_page.set_viewport_size({"width": 390, "height": 900})

    assert [] == violations(notebook_page, OURS)
    assert [] == notebook_page.evaluate(_CUT_OFF, _BOXES)
    assert [] == notebook_page.evaluate(_TOO_WIDE)
