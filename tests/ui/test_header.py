"""The header, and what holds on the whole page: undo, plans, recipes, stale answers."""

from collections.abc import Iterator

import pytest

pytest.importorskip("axe_playwright_python")

from playwright.sync_api import expect

from tests.ui.control_pages import (
    DEFAULT,
    field,
    open_page,
    wait_for_command,
)
from tests.ui.looks import LOOKS
from tests.ui.run_pages import violations

pytestmark = pytest.mark.browser

GREEN = """() => [...document.querySelectorAll('.planner-results *, .planner-bar *')]
  .filter(node => node.checkVisibility({ visibilityProperty: true })
    && !node.closest('.planner-bars'))
  .filter(node => getComputedStyle(node).backgroundColor === 'rgb(0, 105, 76)')
  .filter(node => !node.closest('[inert]'))
  .map(node => node.className)"""
"""What is drawn in the colour of a plan that fits."""
TABS = {
    "Memory": ".pl-panel[data-key=memory] table",
    "Advice": ".planner-advice .pl-row",
    "GPUs": ".planner-load-map",
    "Compare": ".planner-pins button",
    "Speed": ".planner-tab-speed table",
    "Export": ".planner-export code",
    "Run": ".planner-run",
}
"""Each tab, and what it shows when it is drawn."""


@pytest.fixture
def page(browser, app) -> Iterator[object]:
    """A page of its own: each test changes it."""
    opened = open_page(browser, app)
    yield opened
    opened.context.close()


def test_ctrl_z_takes_a_step_of_a_slider_back_and_ctrl_y_makes_it_again(page) -> None:
    """Outside of text entries; the buttons say what is possible."""
    undo = page.get_by_role("button", name="Undo", exact=True)
    before = undo.get_attribute("aria-disabled")
    slider = page.get_by_role("slider", name="max_num_seqs")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    wait_for_command(page, "--max-num-seqs 896")
    page.keyboard.press("Control+z")
    page.locator(".pl-command code", has_text="--max-num-seqs").wait_for(
        state="detached"
    )
    page.keyboard.press("Control+y")
    wait_for_command(page, "--max-num-seqs 896")

    assert "true" == before
    assert "false" == undo.get_attribute("aria-disabled")


def test_a_named_plan_is_there_after_a_reload_and_opens(page) -> None:
    """It is kept by the browser; another plan gives way to it."""
    page.get_by_role("button", name="Qwen3-32B, 20 users").click()
    page.locator(".pl-subject", has_text="Qwen/Qwen3-32B").wait_for()
    page.wait_for_url("**load.requests=20**")
    page.locator("summary", has_text="Plans").click()
    page.get_by_label("Name of this plan").fill("Twenty users")
    page.keyboard.press("Enter")
    page.get_by_text("Kept in this browser: Twenty users").wait_for()
    page.goto(page.url.split("?")[0])
    wait_for_command(page, DEFAULT)
    page.locator(".pc-field").first.wait_for()
    page.locator("summary", has_text="Plans").click()
    page.get_by_role("button", name="Twenty users", exact=True).click()
    page.locator(".pl-subject", has_text="Qwen/Qwen3-32B").wait_for()
    headline = page.locator(".pl-headline").inner_text()

    assert "Starts, but serves 1 of 20 at once" in headline
    expect(field(page, "requests").get_by_role("textbox")).to_have_value("20")


def test_the_theme_is_chosen_and_kept(page) -> None:
    """Dark, whatever the system says."""
    page.get_by_label("theme").select_option("dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.reload()
    page.locator(".pc-field").first.wait_for()

    assert "rgb(12, 17, 22)" == dark == page.evaluate(paper)


def test_verdict_and_memory_stay_in_sight_while_the_page_scrolls(page) -> None:
    """As one line above the results, which follows the controls."""
    bar = page.locator(".pl-bar-inside")
    hidden = bar.is_visible()
    page.get_by_role("button", name="Show all").click()
    page.mouse.move(900, 500)
    page.mouse.wheel(0, 900)
    bar.wait_for()
    page.locator(".pl-bar-memory span").nth(4).wait_for()
    top = page.locator(".pl-bar-inside").bounding_box()["y"]

    assert not hidden
    assert 0 <= top < 20
    assert page.locator(".pl-bar-words").inner_text().startswith("✔ Fits +")


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_while_an_entry_is_wrong_nothing_is_green_and_nothing_applies(
    browser, app, scheme, width
) -> None:
    """The message stands twice, and is spoken once; axe-core finds nothing."""
    page = open_page(
        browser, app, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    page.locator(".planner-advice .pl-action").first.wait_for()
    before = page.evaluate(GREEN)
    entry = field(page, "max_model_len").get_by_role("textbox")
    entry.fill("lots")
    entry.press("Enter")
    page.locator(".planner-alert", has_text="not understood").wait_for()
    spoken = page.locator("[role=alert]:visible").count()
    after = page.evaluate(GREEN)
    applied = page.locator(".planner-advice .pl-action").first
    is_inert = applied.evaluate("node => Boolean(node.closest('[inert]'))")
    found = violations(page, "html")
    entry.fill("4096")
    entry.press("Enter")
    wait_for_command(page, "--max-model-len 4096")
    page.locator(".planner-alert").wait_for(state="hidden")
    is_free = applied.evaluate("node => !node.closest('[inert]')")
    page.context.close()

    assert before
    assert [] == after
    assert 1 == spoken
    assert is_inert
    assert is_free
    assert [] == found


def test_a_model_that_is_not_found_is_mended_by_a_press(page) -> None:
    """The nearest name is a button."""
    box = field(page, "model").get_by_role("combobox")
    box.fill("Qwen/Qwen3-8Bee")
    box.press("Enter")
    page.get_by_role("button", name="Qwen/Qwen3-8B", exact=True).click()
    wait_for_command(page, "vllm serve Qwen/Qwen3-8B")


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_every_tab_is_accessible(browser, app, scheme, width) -> None:
    """axe-core finds nothing on any tab, with a load and its rows and map."""
    page = open_page(
        browser, app, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    page.get_by_role("button", name="Qwen3-32B, 20 users").click()
    page.locator(".pl-subject", has_text="Qwen/Qwen3-32B").wait_for()
    found = {}
    for name, drawn in TABS.items():
        page.get_by_role("tab", name=name, exact=True).click()
        page.locator(drawn).first.wait_for()
        # The rest of the page is the same on each.
        place = "[role=tabpanel]:not(.is-closed)" if found else "html"
        found[name] = violations(page, place)
    page.context.close()

    assert found == {name: [] for name in TABS}


def test_share_of_this_machines_page_says_so_and_gives_the_plan(page, app) -> None:
    """Nobody else can open its address: verdict, link and command are copied."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Share", exact=True).click()
    said = page.locator(".ph-copied")
    said.filter(has_text="opens on this machine only").wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    found = violations(page, ".planner-header")
    page.get_by_role("tab", name="Export", exact=True).click()
    page.locator(".pl-here", has_text="opens on this machine only").wait_for()
    link = page.locator(".planner-export code").first.inner_text()

    assert text.startswith("# meta-llama/Llama-3.1-8B-Instruct on H100")
    assert text.endswith(f"{DEFAULT}\n")
    assert link.startswith(f"{app}?model=")
    assert [] == found
