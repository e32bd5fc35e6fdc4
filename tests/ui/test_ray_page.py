"""Ray pipelines in Chromium: tables pass axe-core, nodes are drawn, in the app, too."""

import pytest

pytest.importorskip("axe_playwright_python")

from planner import ray
from planner.ray import Node
from tests.ui.control_pages import field, open_page
from tests.ui.looks import LOOKS
from tests.ui.run_pages import violations
from tests.ui.test_compared_pages import THEMES, document

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("theme", "width"),
    [(THEMES["light"], 390), (THEMES["dark"], 1280)],
    ids=["light", "dark"],
)
def test_tables_pass_axe_core_and_stay_inside_the_page(browser, theme, width) -> None:
    """A pipeline with cautions, and a placement in which some wait."""
    pipeline = ray.pipeline("Qwen/Qwen3-8B", concurrency=3, accelerator_type="H100")
    nodes = [Node(name="a", cpus=32, gpus=2, accelerator_type="H100")]
    shown = [pipeline, pipeline.on(nodes)]
    parts = [one._repr_mimebundle_()["text/html"] for one in shown]
    page = browser.new_page(viewport={"width": width, "height": 700})
    page.set_content(document(*theme, "".join(parts)))
    found = violations(page, "main")
    fits = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()

    assert [] == found
    assert fits


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_the_section_places_what_is_typed(browser, app, scheme, width) -> None:
    """Ten replicas on a node of eight GPUs: by key, drawn, and accessible."""
    page = open_page(
        browser, app, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    page.get_by_role("tab", name="Export").click()
    page.get_by_role("button", name="Ray Data LLM").focus()
    page.keyboard.press("Enter")
    field(page, "replicas_max").wait_for()
    entry = page.get_by_role("textbox", name="replicas_max")
    entry.fill("10")
    entry.press("Enter")
    page.locator(
        ".planner-ray .pl-headline", has_text="8 of 10 replicas placed, 2 wait"
    ).wait_for()
    page.locator(".planner-ray-nodes .bars path").first.wait_for()
    found = violations(page, ".planner-ray")
    fits = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.context.close()

    assert [] == found
    assert fits
