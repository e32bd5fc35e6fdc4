"""Every rich view in JupyterLab: within its output, readable in both themes."""

from collections.abc import Iterator

import pytest

from tests import plans
from tests.ui import servers, views
from tests.ui.run_pages import violations

pytestmark = pytest.mark.browser

PLACES = [
    pytest.param(760, views.LIGHT, id="760 light"),
    pytest.param(760, views.DARK, id="760 dark"),
    pytest.param(1600, views.LIGHT, id="1600 light"),
    pytest.param(1600, views.DARK, id="1600 dark"),
]
SCROLLS = ".pl-scroll"
"""Marks a box that scrolls inside itself."""
PICTURE = "[role=img]"
"""Its segments cut off what their names do not fit; a legend or a table has them."""

TOO_WIDE = """(outputs, [scrolls, picture]) => outputs.flatMap((output, number) => {
  const edge = output.getBoundingClientRect().right;
  return [output, ...output.querySelectorAll("*")]
    .filter((part) => !part.closest(scrolls) && part.clientWidth)
    .filter((part) =>
      (part.scrollWidth > part.clientWidth && !part.parentElement.closest(picture)) ||
      part.getBoundingClientRect().right > edge + 0.5)
    .map((part) => `${number} ${part.tagName}.${part.className}: ` +
      `${part.scrollWidth} > ${part.clientWidth}`);
})"""

BOXES_OUTSIDE = """(outputs, scrolls) => outputs.flatMap((output, number) => {
  const edge = output.getBoundingClientRect().right;
  return [...output.querySelectorAll(scrolls)]
    .filter((box) => box.getBoundingClientRect().right > edge + 0.5)
    .map((box) => `${number} ${box.ariaLabel}`);
})"""

FIRST_CELLS_GONE = """(boxes) => boxes
  .filter((box) => box.scrollWidth > box.clientWidth)
  .flatMap((box) => {
    box.scrollLeft = box.scrollWidth;
    const left = box.getBoundingClientRect().left;
    const gone = [...box.querySelectorAll("tr > :first-child")].filter((cell) => {
      const place = cell.getBoundingClientRect();
      const top = document.elementFromPoint(left + 2, place.top + place.height / 2);
      return Math.abs(place.left - left) > 0.5 || (top && !cell.contains(top));
    });
    box.scrollLeft = 0;
    return gone.map((cell) => `${box.ariaLabel}: ${cell.textContent}`);
  })"""


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory) -> Iterator[object]:
    """The notebook of all views, every fold open."""
    with views.opened(browser, tmp_path_factory.mktemp("views")) as opened:
        yield opened


def outputs(page):
    """The outputs, one of each view."""
    return page.locator(views.OUTPUT)


def fold(page, *, is_open: bool) -> None:
    """Open or close every fold of every view."""
    page.locator(f"{views.OUTPUT} details").evaluate_all(
        "(folds, isOpen) => { for (const fold of folds) fold.open = isOpen; }", is_open
    )


def test_every_cell_shows_a_view(page) -> None:
    """None ends with an error, and none falls back to text."""
    assert len(views.VIEWS) == outputs(page).count()
    assert len(views.VIEWS) == page.locator(f"{views.OUTPUT} .pl-whole").count()


@pytest.mark.parametrize("is_open", [False, True], ids=["folded", "open"])
@pytest.mark.parametrize(("width", "theme"), PLACES)
def test_nothing_is_wider_than_its_output(page, width, theme, is_open) -> None:
    """Either it fits, or it scrolls in a box of its own, which fits."""
    views.show(page, width, theme)
    fold(page, is_open=is_open)
    found = outputs(page)

    assert [] == found.evaluate_all(TOO_WIDE, [SCROLLS, PICTURE])
    assert [] == found.evaluate_all(BOXES_OUTSIDE, SCROLLS)


def test_the_first_column_stays_while_the_others_scroll(page) -> None:
    """It says what a row is."""
    views.show(page, 760, views.LIGHT)
    fold(page, is_open=True)
    boxes = page.locator(f"{views.OUTPUT} {SCROLLS}")
    wide = boxes.evaluate_all(
        "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth).length"
    )

    assert wide > 0
    assert [] == boxes.evaluate_all(FIRST_CELLS_GONE)


@pytest.mark.parametrize(("width", "theme"), [PLACES[0], PLACES[3]])
def test_axe_finds_nothing(page, width, theme) -> None:
    """Contrast, names and tables, with every fold open."""
    views.show(page, width, theme)
    fold(page, is_open=True)

    assert [] == violations(page, ".pl-whole")


def test_a_line_opens_where_scripts_do_not_run(browser) -> None:
    """Other front ends show the HTML alone, here without any colour of theirs."""
    html = plans.fitting()._repr_mimebundle_()["text/html"]
    context = browser.new_context(java_script_enabled=False)
    bare = context.new_page()
    bare.set_content(f"<body style='background:#222;color:#ddd'>{html}")
    why = bare.get_by_text(plans.fitting().limiting_rank.lines[0].why)

    assert not why.is_visible()
    bare.locator(".pl-more summary").first.click()
    why.wait_for(state="visible")
    context.close()


def test_a_figure_in_voila_is_drawn_without_an_error(browser, tmp_path) -> None:
    """As `voila notebooks/explorer.ipynb` shows its picture of a large model."""
    cell = 'import planner\nplanner.plan("Qwen/Qwen3-8B", gpu="H100").figure()'
    with servers.plain_voila(servers.write("figure", tmp_path, [cell])) as address:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        opened = context.new_page()
        errors: list[str] = []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.goto(address)
        bars = opened.locator(".js-plotly-plot .barlayer .point path")
        bars.first.wait_for()
        # plotly's renderer makes an image after that.
        opened.evaluate("() => new Promise((done) => requestIdleCallback(done))")
        context.close()

    assert errors == []
