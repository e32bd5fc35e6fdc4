"""Advice, pins, links and files in the app, as a visitor uses them."""

import pytest

pytest.importorskip("axe_playwright_python")

import planner
from planner.solve.advice import CostClass
from tests.app_visits import in_the_end
from tests.ui.control_pages import open_tab
from tests.ui.looks import THEMES
from tests.ui.run_pages import violations

pytestmark = pytest.mark.browser

CUT = """width => [...document.querySelectorAll('.planner-explorer *')]
  .filter(node => node.offsetParent
    && !node.closest('.planner-chart, .ph-chips, .pl-scroll, pre'))
  .filter(node => node.getBoundingClientRect().right > width)
  .map(node => node.outerHTML.slice(0, 80))"""
"""What reaches beyond the window."""
LINK = "?model=meta-llama/Llama-3.1-8B-Instruct&gpu=L4"


def open_link(browser, app: str, query: str, **options):
    """Open the app with a query and wait for the plan that it asks for."""
    options = {"viewport": {"width": 1280, "height": 900}} | options
    page = browser.new_context(**options).new_page()
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(app + query)
    page.locator(".planner-advice .pl-row").first.wait_for()
    return page


@pytest.fixture
def page(browser, app):
    """An 8B model on an L4 with its whole length, where it does not fit."""
    opened = open_link(browser, app, LINK)
    opened.locator(".planner-verdict", has_text="Does not fit").wait_for()
    yield opened
    opened.context.close()


def command(page) -> str:
    """The `vllm serve` line on the page."""
    return page.locator(".planner-command code").inner_text()


def verdict(page, words: str) -> None:
    """Wait for a verdict."""
    page.locator(".planner-verdict", has_text=words).wait_for()


def apply_shorter(page) -> None:
    """Apply the advice that shortens requests."""
    open_tab(page, "Advice")
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("button", name="Apply: Allow requests").first.click()
    verdict(page, "Fits")


def test_an_advice_is_applied_by_key_and_taken_back(page) -> None:
    """The focus goes to Undo: a second press must not apply something else."""
    before = command(page)
    page.get_by_role("button", name="Show all").click()
    button = page.get_by_role("button", name="Apply: Allow requests").first
    button.focus()
    page.keyboard.press("Enter")
    verdict(page, "Fits")
    undo = page.get_by_role("button", name="Undo: Applied")
    undo.wait_for()
    assert "--max-model-len" in command(page)
    assert undo.evaluate("node => node === document.activeElement")
    page.keyboard.press("Enter")
    verdict(page, "Does not fit")

    assert before == command(page)


def test_advice_stands_under_what_it_costs(page) -> None:
    """The best answer first; opened, each class with its rule, in their order."""
    heads = page.locator(".planner-advice .pl-list-group")
    closed = heads.all_inner_texts()
    page.get_by_role("button", name="Show all").click()
    opened = heads.all_inner_texts()

    assert len(closed) == 1
    assert closed[0].startswith("Best answer: ")
    rules = [str(one.rule) for one in CostClass]
    assert all(any(rule in head for rule in rules) for head in opened)
    names = [head.partition(" The")[0] for head in opened]
    assert any(name.startswith("More hardware") for name in names)


@pytest.mark.parametrize("width", [390, 700, 1280, 1600])
def test_advice_in_a_notebook_is_no_wider_than_its_cell(browser, width) -> None:
    """Change, result and price, whatever the width; the fold opens in place."""
    load = planner.Load(prompt_tokens=30_000, output_tokens=2_768, requests=20)
    plan = planner.plan("Qwen/Qwen3-32B", gpu="H100", load=load)
    context = browser.new_context(viewport={"width": width, "height": 900})
    opened = context.new_page()
    opened.set_content(planner.advise(plan)._repr_mimebundle_()["text/html"])
    opened.locator("summary").click()
    wide = opened.evaluate("document.documentElement.scrollWidth")
    rows = opened.locator(".pl-changes tbody th[scope=row]")
    boxes = [rows.nth(index).bounding_box() for index in range(rows.count())]
    context.close()

    assert wide <= width
    assert len(boxes) == len(planner.advise(plan).offered)
    assert all(box["x"] + box["width"] <= width for box in boxes)


def test_the_list_opens_to_all_advice_and_closes_again(page) -> None:
    """The button says how many there are, and whether they are shown."""
    few = page.locator(".planner-advice .pl-row").count()
    more = page.locator(".planner-advice .pl-more")
    told = int(more.inner_text().split()[-1])
    more.click()
    every = page.locator(".planner-advice .pl-row").count()
    state = page.locator(".planner-advice .pl-more").get_attribute("aria-expanded")
    page.locator(".planner-advice .pl-more").click()

    assert few < every == told
    assert "true" == state
    assert few == page.locator(".planner-advice .pl-row").count()


def test_the_address_follows_the_controls_and_reloads_to_the_same_plan(page) -> None:
    """What is on the screen can be sent to somebody."""
    entry = page.get_by_role("textbox", name="max_model_len")
    entry.fill("4096")
    entry.press("Enter")
    verdict(page, "Fits")
    page.wait_for_url("**max_model_len=4096**")
    shown = command(page)
    page.reload()
    page.locator(".planner-command code", has_text="4096").wait_for()

    assert shown == command(page)
    assert "L4" in page.locator(".planner-verdict").inner_text()


def test_a_malicious_link_opens_the_default_plan_and_says_so(browser, app) -> None:
    """Markup is shown as text; folders and code are left out."""
    query = (
        "?model=/etc/passwd&gpu=<img src=x onerror=window.hit=1>"
        "&worker_extension_cls=os.system&tensor_parallel_size=DROP"
    )
    page = open_link(browser, app, query)
    alert = page.locator(".planner-alert [role=alert]")
    alert.wait_for()
    told = alert.inner_text()
    hit = page.evaluate("window.hit === undefined")
    shown = command(page)
    page.context.close()

    assert hit
    assert "vllm serve meta-llama/Llama-3.1-8B-Instruct" == shown
    for name in ("model", "gpu", "worker_extension_cls", "tensor_parallel_size"):
        assert name in told


def test_a_pinned_plan_is_drawn_beside_the_next_one(page) -> None:
    """Two bars, and the change of the command."""
    open_tab(page, "Compare")
    page.get_by_role("button", name="Pin this plan").click()
    bars = page.locator(".planner-compared-bars .barlayer .point path")
    bars.first.wait_for(state="attached")
    apply_shorter(page)
    open_tab(page, "Compare")
    inserted = page.locator(".planner-pins ins").first
    inserted.wait_for()
    page.get_by_role("button", name="Remove: A").click()
    page.locator(".planner-compared-bars").wait_for(state="detached")

    assert page.locator(".planner-pins .pl-row").count() == 1


def test_a_file_is_downloaded_as_it_is_shown(page) -> None:
    """The plan file, byte for byte."""
    open_tab(page, "Export")
    page.get_by_label("format").select_option(label="Plan file, for planner plan -f")
    shown = page.locator(".planner-export code", has_text="model:")
    shown.wait_for()
    with page.expect_download() as download:
        page.locator(".pl-download").click()

    assert "plan.yaml" == download.value.suggested_filename
    assert shown.inner_text().strip() == download.value.path().read_text().strip()


def test_the_link_to_take_away_is_the_page_s_own_address(page, app) -> None:
    """Complete, so that it can be pasted anywhere."""
    open_tab(page, "Export")
    text = page.locator(".planner-export code[data-link]")
    text.wait_for()

    assert text.inner_text().startswith(f"{app}?model=meta-llama/")


@pytest.mark.parametrize("scheme", THEMES)
def test_all_of_it_is_accessible_and_offline(browser, app, scheme) -> None:
    """axe-core finds nothing, wide and narrow; nothing is asked of another host."""
    page = open_link(browser, app, LINK, color_scheme=scheme)
    open_tab(page, "Compare")
    page.get_by_role("button", name="Pin this plan").click()
    apply_shorter(page)
    open_tab(page, "Compare")
    page.locator(".planner-pins ins").first.wait_for()
    open_tab(page, "Export")
    page.locator(".planner-export code").wait_for()
    wide = violations(page, "html") if scheme == "light" else []
    page.set_viewport_size({"width": 390, "height": 900})
    cut = in_the_end(lambda: page.evaluate(CUT, 390), [])
    narrow = violations(page, ".planner-results") if scheme == "dark" else []
    asked = [
        address
        for address in page.asked
        if not address.startswith((app, "data:", f"blob:{app}"))
    ]
    page.context.close()

    assert [] == wide
    assert [] == narrow
    assert [] == cut
    assert [] == asked
