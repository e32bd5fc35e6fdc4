"""The workshop's slides in a browser: axe-core, keys, no requests."""

from __future__ import annotations

import pytest

from tests.ui.run_pages import violations
from tools import slides

pytestmark = pytest.mark.browser
pytest.importorskip("axe_playwright_python")

LAST = 21
_CUT_OFF = """() => [...document.querySelectorAll('.picture text')]
  .map((text) => [text.textContent, text.getBoundingClientRect()])
  .filter(([, box]) => box.left < 0 || box.right > innerWidth)
  .map(([words]) => words)"""
_CROSSED = """() => [...document.querySelectorAll('.picture')].flatMap((picture) => {
  const areas = picture.querySelectorAll('.grown');
  return [...picture.querySelectorAll('text')].slice(0, areas.length)
    .filter((text, at) => {
      const { x, width } = text.getBBox();
      const base = Number(text.getAttribute('y'));
      const top = base - 0.75 * parseFloat(getComputedStyle(text).fontSize);
      return [[x, base], [x, top], [x + width, base], [x + width, top]]
        .some(([left, y]) => !areas[at].isPointInFill(new DOMPoint(left, y)));
    }).map((text) => text.textContent);
})"""
_BROKEN = """() => [...document.querySelectorAll('td')]
  .filter((cell) => {
    const words = new Range();
    words.selectNodeContents(cell);
    const isSize = /^[0-9.,]+ [KG]iB$/.test(cell.textContent);
    return isSize && words.getClientRects().length > 1;
  }).map((cell) => cell.textContent)"""


@pytest.fixture(scope="module")
def slides_file(tmp_path_factory):
    """Return the slides as `make slides` leaves them."""
    path = tmp_path_factory.mktemp("slides") / "slides.html"
    assert 0 == slides.main([str(path)])
    return path


def _open(browser, path, width=1280, scheme="light"):
    """Open a file; what it asks of others is refused and noted."""
    context = browser.new_context(
        viewport={"width": width, "height": 720}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.route("http*://**", lambda route: route.abort())
    page.goto(path.as_uri())
    return page, asked


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_slides_pass_axe_core_with_their_notes_open(
    browser, slides_file, width, scheme
):
    """Contrast, names, headings; nothing is asked for but the file itself."""
    page, asked = _open(browser, slides_file, width, scheme)
    loaded = list(asked)
    page.keyboard.press("n")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    notes = page.locator("details[open]").count()
    found = violations(page, "html")
    too_wide = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    page.context.close()

    assert [slides_file.as_uri()] == loaded
    assert ("rgb(255, 255, 255)" == background) is (scheme == "light")
    assert notes >= 12
    assert [] == found
    assert 0 >= too_wide


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_cuts_or_crosses_the_words_of_a_slide(browser, slides_file, width):
    """Words of pictures, names in the areas of requests; a size keeps its unit."""
    page, _asked = _open(browser, slides_file, width)
    found = [page.evaluate(each) for each in (_CUT_OFF, _CROSSED, _BROKEN)]
    names = page.locator(".picture text", has_text="request 4").count()
    page.context.close()

    assert [[], [], []] == found
    assert names >= 1


def test_each_slide_fits_on_a_projector(browser, slides_file):
    """1280 by 720: a slide with its notes closed is one screen high, nothing cut."""
    page, _asked = _open(browser, slides_file)
    heights = page.evaluate("slides.map((one) => one.offsetHeight)")
    page.context.close()

    assert [720] * LAST == heights


def test_notes_open_in_a_window_that_follows_the_slides(browser, slides_file):
    """Its slide's notes and the next title; axe-core is content; its keys turn too."""
    page, _asked = _open(browser, slides_file)
    with page.expect_popup() as opened:
        page.keyboard.press("p")
    notes = opened.value
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    notes.get_by_role("heading", name="Predict").wait_for()
    said = notes.locator("#notes").inner_text()
    following = notes.locator("#next").inner_text()
    found = violations(notes, "html")
    notes.keyboard.press("ArrowLeft")
    turned = page.evaluate("location.hash")
    page.context.close()

    assert "Ask three people aloud" in said
    assert "Next: The first day, planned" == following
    assert [] == found
    assert "#slide-2" == turned


def test_keys_turn_slides_and_the_address_keeps_the_place(browser, slides_file):
    """Right, left, the last, and never past it."""
    page, _asked = _open(browser, slides_file)
    places = []
    for key in ("ArrowRight", "PageDown", "ArrowLeft", "End", "ArrowRight", "Home"):
        page.keyboard.press(key)
        places.append(page.evaluate("location.hash"))
    focused = page.evaluate("document.activeElement.id")
    page.context.close()

    assert [f"#slide-{n}" for n in (2, 3, 2, LAST, LAST, 1)] == places
    assert "slide-1" == focused
