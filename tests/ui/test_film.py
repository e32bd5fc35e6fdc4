"""A start on film in a browser: drawn, watched, scrubbed, and met by the plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from planner import learn
from tests.app_visits import eventually
from tests.ui.run_pages import violations

pytestmark = pytest.mark.browser
pytest.importorskip("axe_playwright_python")


@pytest.fixture(scope="module")
def film_page(tmp_path_factory):
    """Return the page of the desk's start."""
    path = tmp_path_factory.mktemp("film") / "film.html"
    path.write_text(learn.watch_a_start("desk").to_html(), encoding="utf-8")
    return path


def _open(browser, path, width=1280, scheme="light", motion="reduce"):
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        reduced_motion=motion,
        bypass_csp=True,
    )
    page = context.new_page()
    page.goto(path.as_uri())
    return page


def _press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def _to_the_end(page):
    while page.get_by_role("button", name="Next moment").is_enabled():
        _press(page, "Next moment")


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (390, "dark"), (280, "light")]
)
def test_it_passes_axe_core_before_and_after_and_stays_inside(
    browser, film_page, width, scheme
):
    """While it is drawn, and at its end with the bar and both tables."""
    page = _open(browser, film_page, width, scheme)
    found = violations(page, "html")
    _press(page, "Show")
    _to_the_end(page)
    found += violations(page, "html")
    too_wide = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    page.context.close()

    assert [] == found
    assert 0 >= too_wide


def test_a_curve_is_drawn_by_one_stroke_and_stays(browser, film_page):
    """Over all moments, from the lower left to the upper right, then the bar lands."""
    page = _open(browser, film_page, 390)
    box = page.locator(".pf-plot").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] - 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 2, steps=40)
    page.mouse.up()
    sizes = [
        float(one.get_attribute("aria-valuenow"))
        for one in page.locator(".pf-point").all()
    ]
    _press(page, "Show")
    is_landed = page.locator(".pf-bar").is_visible()
    _to_the_end(page)
    is_landed_then = page.locator(".pf-bar").is_visible()
    line = page.locator(".pf-drawing").count()
    tables = page.locator(".pf-result table caption").all_text_contents()
    page.context.close()

    assert sizes == sorted(sizes)
    assert len(set(sizes)) == len(sizes) > 6
    assert (is_landed, is_landed_then) == (False, True)
    assert line == 1
    assert tables == ["At the end", "Your curve"]


def test_keys_alone_draw_and_scrub(browser, film_page):
    """Tab to the first point, up; then Show, and the film by its arrow keys."""
    page = _open(browser, film_page)
    first = page.get_by_role("slider").first
    first.focus()
    page.keyboard.press("PageUp")
    drawn = first.get_attribute("aria-valuetext")
    page.get_by_role("button", name="Show").focus()
    page.keyboard.press("Enter")
    scrub = page.get_by_role("slider")
    scrub.focus()
    page.keyboard.press("End")
    told = scrub.get_attribute("aria-valuetext")
    said = page.locator(".pf-log [aria-current]").text_content()
    page.context.close()

    assert drawn == "15.02 GiB"
    assert told == "ready: 19.93 GiB taken"
    assert said.startswith("Free memory on device")


def test_it_plays_by_itself_unless_less_motion_is_asked_for(browser, film_page):
    """From Show to the end, with Pause; or by moments, without Play."""
    still = _open(browser, film_page)
    _press(still, "Show")
    play = still.get_by_role("button", name="Play").count()
    still.context.close()
    page = _open(browser, film_page, motion="no-preference")
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    _press(page, "Show")
    caption = page.locator(".pf-caption")
    assert eventually(
        lambda: page.clock.run_for(2000) or caption.text_content().startswith("2. ")
    )
    _press(page, "Pause")
    paused = page.locator(".pk-where").text_content()
    page.clock.run_for(5000)
    later = page.locator(".pk-where").text_content()
    _press(page, "Play")
    assert eventually(
        lambda: page.clock.run_for(5000) or page.locator(".pf-bar").is_visible()
    )
    page.context.close()

    assert 0 == play
    assert paused == later
