"""The first screen: it answers, it explains itself, and nothing on it jumps."""

import pytest

from planner.engine.releases import NEWEST
from tests.app_visits import eventually
from tests.ui.servers import status

pytest.importorskip("axe_playwright_python")

pytestmark = pytest.mark.browser

PLACES = """() => Object.fromEntries(
  ['.planner-verdict', '.planner-bars', '.planner-figures', '.planner-marks .pm-unit',
   '[data-name=max_num_seqs]', '.planner-advice'].map(name => {
    const box = document.querySelector(name).getBoundingClientRect();
    return [name, [Math.round(box.left), Math.round(box.top)]];
  }))"""


def opened(browser, app: str, query: str = "", **options):
    """Open the app and wait until it has answered whole."""
    options = {"viewport": {"width": 1280, "height": 1000}} | options
    page = browser.new_context(**options).new_page()
    page.goto(app + query)
    page.locator(".planner-advice .pl-row").first.wait_for()
    return page


@pytest.fixture
def page(browser, app):
    """The default plan: Llama-3.1-8B on an H100."""
    shown = opened(browser, app)
    yield shown
    shown.context.close()


def enter(page, name: str, text: str) -> None:
    """Type into a control."""
    entry = page.get_by_role("textbox", name=name)
    entry.fill(text)
    entry.press("Enter")


def test_the_answer_is_on_the_first_screen(page) -> None:
    """Verdict, bars, figures, best advice and command, without scrolling."""
    for name in (
        *(".pl-headline", ".planner-chart .main-svg >> nth=0", ".pl-figures"),
        *(".planner-advice .pl-row >> nth=0", ".planner-command code"),
        "[data-name=kv_cache_dtype]",
    ):
        box = page.locator(name).bounding_box()
        assert box["y"] + box["height"] <= 1000, name


def test_the_page_says_that_the_controls_start_until_they_are_there(page) -> None:
    """The word goes, and so does the still picture that stood for them."""
    page.locator(".pc-field").first.wait_for()

    assert page.locator("#loading").count() == 0
    assert page.locator(".planner-snapshot").count() == 0


def test_a_page_whose_kernel_ended_says_so_and_offers_to_load_again(page, app) -> None:
    """A kernel that is gone answers nothing; the address still holds the plan."""
    kernel = page.evaluate(
        "() => { const { baseUrl, kernelId } = JSON.parse("
        "document.getElementById('jupyter-config-data').textContent);"
        "navigator.sendBeacon(`${baseUrl}voila/api/shutdown/${kernelId}`);"
        "return kernelId; }"
    )
    assert eventually(lambda: 404 == status(f"{app}api/kernels/{kernel}"))
    enter(page, "max_num_seqs", "64")
    bar = page.locator("#planner-connection[role=alert]")
    bar.wait_for()
    bar.get_by_role("link").click()
    page.locator(".planner-advice .pl-row").first.wait_for()

    assert page.locator("#planner-connection").count() == 0


def test_nothing_jumps_when_a_plan_no_longer_fits(browser, app) -> None:
    """Fits or too small: verdict, bars, figures and controls keep their place."""
    page = opened(browser, app)
    before = page.evaluate(PLACES)
    enter(page, "gpu_memory_utilization", "0.25")
    page.locator(".pl-headline", has_text="Does not fit").wait_for()
    page.locator(".planner-error blockquote").wait_for()
    short = page.evaluate(PLACES)
    enter(page, "gpu_memory_utilization", "0.9")
    page.locator(".pl-headline", has_text="Fits").wait_for()
    page.locator(".planner-error").wait_for(state="hidden")
    after = page.evaluate(PLACES)
    page.context.close()

    assert before == after
    assert {name: place for name, place in short.items() if "advice" not in name} == {
        name: place for name, place in before.items() if "advice" not in name
    }


def test_a_wrong_entry_says_why_at_its_field_and_keeps_the_plan(page) -> None:
    """The verdict is marked as the last good one until the field is right again."""
    before = page.locator(".planner-command code").inner_text()
    enter(page, "max_model_len", "lots")
    page.locator(".planner-stale", has_text="Last good plan").wait_for()
    error = page.locator("[data-name=max_model_len] [role=alert]")
    error.wait_for()
    said = error.inner_text()
    kept = page.locator(".planner-command code").inner_text()
    enter(page, "max_model_len", "")
    page.locator(".planner-stale").wait_for(state="hidden")
    # The controls hear of it by a message of their own, which may come second.
    error.wait_for(state="detached")

    assert "max_model_len was not understood" in said
    assert before == kept


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("kv-cache", "28,076 blocks"),
        ("outside", "CUDA context"),
        ("certainty", "published start-ups"),
    ],
)
def test_a_panel_opens_by_key_and_stays_open_while_values_change(
    page, key, words
) -> None:
    """Its inside comes when it is asked for; the focus stays on it."""
    page.get_by_role("tab", name="Memory").click()
    panel = page.locator(f".pl-panel[data-key={key}]")
    panel.locator("summary").focus()
    page.keyboard.press("Enter")
    panel.locator(".pl-panel-inside", has_text=words).wait_for()
    before = panel.inner_text()
    focused = panel.locator("summary").evaluate("n => n === document.activeElement")
    enter(page, "max_num_seqs", "64")
    page.locator(".planner-command code", has_text="64").wait_for()

    assert eventually(lambda: panel.inner_text() != before)
    assert focused
    assert panel.get_attribute("open") is not None


def test_each_memory_line_opens_to_its_arithmetic_and_source(page) -> None:
    """By key; what was opened stays open when the numbers change."""
    page.get_by_role("tab", name="Memory").click()
    lines = page.locator(".planner-panel-memory .pl-line")
    lines.first.wait_for()
    for index in range(lines.count()):
        name = lines.nth(index).locator("button")
        name.focus()
        page.keyboard.press("Enter")
        assert name.get_attribute("aria-expanded") == "true"
        told = page.locator(".planner-panel-memory .pl-explained").nth(index)
        assert f"vLLM {NEWEST}" in told.inner_text()
    enter(page, "max_num_seqs", "64")
    page.locator(".planner-panel-memory", has_text="64 max_num_seqs").wait_for()

    assert lines.locator("button[aria-expanded=true]").count() == lines.count() == 6


def test_a_fold_says_whether_it_is_open(page) -> None:
    """All engine arguments; and Ray, which comes with the export."""
    page.get_by_role("tab", name="Export").click()
    for title in ("All engine arguments", "Ray Data LLM"):
        button = page.get_by_role("button", name=title)
        button.wait_for()
        assert button.get_attribute("aria-expanded") == "false"
        button.focus()
        page.keyboard.press("Enter")
        page.locator("button[aria-expanded=true]", has_text=title).wait_for()


def test_arrow_keys_open_the_tabs_and_the_last_one_is_kept(page) -> None:
    """One stop of the Tab key; what a tab shows is named by it; a reload keeps it."""
    page.get_by_role("tab", name="Advice").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("tabpanel", name="Memory").wait_for()
    page.locator(".planner-panel-memory .pl-line").first.wait_for()
    opened = page.get_by_role("tab", selected=True).inner_text()
    stops = page.get_by_role("tab").evaluate_all(
        "all => all.filter(one => one.tabIndex === 0).length"
    )
    page.reload()
    page.locator(".planner-panel-memory .pl-line").first.wait_for()

    assert "Memory" == opened
    assert 1 == stops
    assert page.locator(".planner-advice").is_hidden()


def test_a_phone_shows_the_verdict_while_the_controls_fill_the_screen(
    browser, app
) -> None:
    """A bar at the end of the screen; it goes when the verdict itself is in sight."""
    page = opened(browser, app, viewport={"width": 390, "height": 844})
    bar = page.locator(".planner-bar")
    bar.wait_for()
    told = bar.inner_text()
    place = bar.bounding_box()
    places = [
        page.locator(part).bounding_box()
        for part in (".planner-header", ".planner-explorer")
    ]
    enter(page, "gpu_memory_utilization", "0.2")
    page.locator(".planner-bar", has_text="Does not fit").wait_for()
    bar.click()
    bar.wait_for(state="hidden")
    in_sight = page.locator(".planner-verdict").bounding_box()
    page.context.close()

    header, explorer = places
    assert told.startswith("✔ Fits +")
    assert explorer["y"] + explorer["height"] > header["y"]
    assert place["y"] + place["height"] == pytest.approx(844, abs=1)
    assert 0 <= in_sight["y"] < 400


def test_the_verdict_is_announced(page) -> None:
    """A live region, which speaks as a whole."""
    live = page.locator(".planner-verdict")

    assert live.get_attribute("role") == "status"
    assert live.get_attribute("aria-live") == "polite"
    assert live.get_attribute("aria-atomic") == "true"


def test_who_wants_less_motion_gets_none(browser, app) -> None:
    """No transition is left."""
    page = opened(browser, app, reduced_motion="reduce")
    moving = page.evaluate(
        "[...document.querySelectorAll('.planner-explorer *')].filter(node => "
        "['', '::before'].some(part => parseFloat(getComputedStyle(node, part)"
        ".transitionDuration) > 0)).map(node => node.className)"
    )
    page.context.close()

    assert moving == []
