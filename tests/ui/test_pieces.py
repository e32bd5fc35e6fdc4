"""The interactive pieces of lessons on one page without a kernel or a network."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from planner import learn, plan
from planner.app.widgets import pieces
from tests.app_visits import eventually
from tests.ui.run_pages import violations

pytestmark = pytest.mark.browser
pytest.importorskip("axe_playwright_python")

BESIDE_SIDE_BARS = 280
"""Pixels that JupyterLab has for a piece on a phone."""
_OUTSIDE = """() => [
  ...document.querySelectorAll('.planner-piece'),
].flatMap((piece) => {
  const { right } = piece.getBoundingClientRect();
  return [...piece.querySelectorAll(':is(p, pre, table, button, input, output, li)')]
    .filter((part) => part.getBoundingClientRect().right > right + 1)
    .map((part) => `${part.className}: ${part.textContent}`);
})"""
_BEHIND_EDGES = """() => [...document.querySelectorAll('.pg-segment:not(.is-narrow)')]
  .filter((part) => part.firstChild.scrollWidth > part.clientWidth - 12)
  .map((part) => part.textContent)"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """Return a page with all of them."""
    made = plan("Qwen/Qwen3-8B", "L4", max_model_len=8192)
    shown = (
        pieces.html(learn.slide("Qwen/Qwen3-8B", "L4", max_model_len=8192)),
        pieces.html(learn.living_kv_cache(made)),
        pieces.html(learn.guess_the_bar("2026-11-24", rounds=2)),
        pieces.html(learn.debug_this_start(3)),
    )
    path = tmp_path_factory.mktemp("pieces") / "pieces.html"
    path.write_text(pieces.page_html("Pieces", *shown), encoding="utf-8")
    return path


def _open(browser, path, width=1280, scheme="light", motion="no-preference"):
    """Open a page; what it asks of others, and its errors, are noted."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        reduced_motion=motion,
        bypass_csp=True,
    )
    page = context.new_page()
    noted = []
    page.on("request", lambda request: noted.append(request.url))
    page.on("pageerror", lambda error: noted.append(str(error)))
    page.goto(path.as_uri())
    return page, noted


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(1280, "light"), (850, "dark"), (390, "light"), (BESIDE_SIDE_BARS, "dark")],
)
def test_all_of_them_pass_axe_core_and_stay_inside_the_page(
    browser, page_file, width, scheme
):
    """With answers shown and arithmetic open; nothing is requested."""
    page, noted = _open(browser, page_file, width, scheme)
    asked = list(noted)
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("button", name="Explain", exact=True).click()
    for _ in range(11):
        page.get_by_role("button", name="Step", exact=True).click()
    page.evaluate(
        "document.querySelectorAll('details').forEach((d) => { d.open = 1; })"
    )
    found = violations(page, "html")
    outside = page.evaluate(_OUTSIDE) + page.evaluate(_BEHIND_EDGES)
    too_wide = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    page.context.close()

    assert [page_file.as_uri()] == asked
    assert [] == found
    assert [] == outside
    assert 0 >= too_wide


def test_keys_and_the_pointer_move_them(browser, page_file):
    """A slider by an arrow, an edge by an arrow and by dragging, a cache by steps."""
    page, _noted = _open(browser, page_file)
    page.get_by_role("slider", name="max_model_len").focus()
    page.keyboard.press("ArrowRight")
    length = page.locator(".pp-now").text_content()
    bar = page.locator(".planner-slide .planner-picture").get_attribute("aria-label")
    edge = page.get_by_role("slider", name="weights")
    edge.focus()
    page.keyboard.press("ArrowRight")
    by_key = edge.get_attribute("aria-valuetext")
    box, end = edge.bounding_box(), page.locator(".pg-bar").first.bounding_box()
    page.mouse.move(box["x"] + 12, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(end["x"] + end["width"] / 2, box["y"] + 20, steps=3)
    page.mouse.up()
    by_pointer = edge.get_attribute("aria-valuenow")
    page.get_by_role("button", name="Step", exact=True).click()
    told = page.get_by_role("log").text_content()
    page.context.close()

    assert "16,384" == length
    assert "KV cache" in bar
    assert "2.30 GiB" == by_key
    assert abs(float(by_pointer) - 11.01) < 0.1
    assert told.startswith("A arrives with a prompt of 4,096 tokens")


def test_who_asked_for_less_motion_gets_steps_only(browser, page_file):
    """No Play; with motion it plays by itself once it is started, and pauses."""
    still, _noted = _open(browser, page_file, motion="reduce")
    play = still.get_by_role("button", name="Play").count()
    still.context.close()
    page, _noted = _open(browser, page_file)
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    page.get_by_role("combobox", name="Speed").select_option("500")
    page.get_by_role("button", name="Play").click()
    where = page.locator(".pk-where")
    assert eventually(
        lambda: page.clock.run_for(100) or "Step 2 of" in where.text_content()
    )
    page.get_by_role("button", name="Pause").click()
    paused = page.locator(".pk-where").text_content()
    page.clock.run_for(1500)
    later = page.locator(".pk-where").text_content()
    page.context.close()

    assert 0 == play
    assert paused == later


def test_the_app_has_the_bar_of_the_day(browser, app):
    """A page of its own, with a policy that allows its script and nothing else."""
    context = browser.new_context()
    page = context.new_page()
    noted = []
    page.on("request", lambda request: noted.append(request.url))
    page.goto(f"{app}guess")
    page.get_by_role("button", name="Show", exact=True).click()
    score = page.locator(".pg-score").text_content()
    context.close()

    assert [f"{app}guess"] == noted
    assert score.endswith(" of 100")
