"""Which GPUs? in Chromium, alone in an app: by key, priced, applied, accessible."""

import os

import pytest

pytest.importorskip("axe_playwright_python")

import planner
from planner import Load, solve
from tests.ui import servers
from tests.ui.looks import LOOKS
from tests.ui.run_pages import violations
from tests.ui.test_compared_pages import THEMES, document

pytestmark = pytest.mark.browser

MODEL = "Qwen/Qwen3-32B"
LOAD = Load(prompt_tokens=32_000, output_tokens=768, requests=20)
CELL = f"""
import ipywidgets as w
import planner
from planner import Load
from planner.app.widgets.gpus_section import GpusSection
from planner.app.widgets.static_files import sheet

plan = planner.plan({MODEL!r}, gpu="H100", load={LOAD!r})
said = w.HTML()

def apply(changes):
    changed = plan.changed(**changes)
    said.value = f"<code class='said'>{{changed.command()}}</code>"
    section.show(changed)

section = GpusSection(apply)
section.show(plan)
section.turn(True)
style = w.HTML("<style>" + sheet("explorer.css", "chart.css") + "</style>")
page = w.VBox([style, w.VBox([section, said]).add_class("planner-explorer")])
page
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """An app with the section alone; prices are saved in a folder of its own."""
    folder = tmp_path_factory.mktemp("gpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "PLANNER_DATA_DIR", str(folder / "data"))
        with servers.voila(servers.write("gpus", folder, [CELL]), pool=1) as found:
            yield found


def opened(browser, address, **options):
    """Open the section, and wait until the search has ended."""
    page = browser.new_context(**options).new_page()
    page.goto(address)
    page.locator(".ps-table tbody tr").first.wait_for()
    page.locator(".ps-root[aria-busy='false']").wait_for()
    page.locator(".planner-load-map .bars path").first.wait_for()
    return page


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_the_section_is_accessible_and_inside_the_page(
    browser, address, scheme, width
) -> None:
    """Table, prices, map of loads: in both themes, wide and narrow."""
    page = opened(
        browser,
        address,
        color_scheme=scheme,
        viewport={"width": width, "height": 900},
    )
    page.get_by_text("What the nearest others lack").click()
    found = violations(page, ".planner-gpus")
    fits = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.context.close()

    assert [] == found
    assert fits


def test_the_cheapest_is_applied_in_two_presses(browser, address) -> None:
    """Cheapest, then Apply: the command has its layout, and the rows stay."""
    cheapest = solve.set_ups(MODEL, LOAD).cheapest
    page = opened(browser, address)
    page.get_by_role("button", name="Cheapest").press("Enter")
    name = f"{cheapest.gpus_total} x {cheapest.gpu.name}"
    first = page.locator(".ps-table tbody tr").first
    first.get_by_text(name).wait_for()
    first.get_by_role("button", name="Apply").press("Enter")
    said = page.locator(".said")
    said.wait_for()
    command = said.inner_text()
    is_stale = page.locator(".ps-root.is-stale").count()
    page.context.close()

    changed = planner.plan(MODEL, load=LOAD).changed(**cheapest.changes())
    assert changed.command() == command
    assert not is_stale


def test_a_typed_price_is_used_and_stays(browser, address) -> None:
    """H200 for half a dollar each: 2 cost 1.00, also for the next visitor."""
    cheapest = "Cheapest: 2 x H200 (1.00 USD per hour)"
    page = opened(browser, address)
    page.get_by_role("button", name="Show all").click()
    entry = page.get_by_label("Price of one H200 for an hour")
    entry.fill("0,5")
    entry.press("Enter")
    row = page.locator(".ps-table tr", has_text="2 x H200")
    row.get_by_text("1.00", exact=True).wait_for()
    assert cheapest in page.locator(".ps-answer").inner_text()
    page.context.close()

    for _visit in range(5):  # kernels that waited may have read the prices before
        page = opened(browser, address)
        answer = page.locator(".ps-answer").inner_text()
        page.context.close()
        if cheapest in answer:
            break
    assert cheapest in answer


@pytest.mark.parametrize(
    ("theme", "width"),
    [(THEMES["light"], 760), (THEMES["dark"], 1280)],
    ids=["light", "dark"],
)
def test_the_notebooks_views_pass_axe_core(browser, theme, width) -> None:
    """Set-ups and a map of loads, as a cell shows them."""
    found = solve.set_ups(MODEL, LOAD, ["H200", "H100", "L4"], prices={"H200": 4})
    drawn = solve.load_map(found.fewest.plan)
    parts = [one._repr_mimebundle_()["text/html"] for one in (found, drawn)]
    page = browser.new_page(viewport={"width": width, "height": 700})
    page.set_content(document(*theme, "".join(parts)))
    wrong = violations(page, "main")
    fits = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()

    assert [] == wrong
    assert fits
