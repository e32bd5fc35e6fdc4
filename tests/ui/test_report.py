"""The HTML report in a browser: opened from disk, light and dark, wide and narrow."""

from __future__ import annotations

import pytest

import planner
from planner.export import html
from tests import plans
from tests.ui.run_pages import violations

pytestmark = pytest.mark.browser
pytest.importorskip("axe_playwright_python")

MAKERS = {
    "fits": plans.fitting,
    "short": plans.too_long,
    "refused": plans.refused,
    "stages": plans.in_stages,
    "arguments": lambda: planner.plan(
        "Qwen/Qwen3-8B", gpu="L4", max_model_len=4096, served_model_name="x" * 300
    ),
}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
@pytest.mark.parametrize("name", MAKERS)
def test_the_report_opens_from_disk_and_passes_axe(
    browser, tmp_path, name, width, scheme
):
    """Contrast, names, landmarks, headings; no request but the file."""
    path = tmp_path / "report.html"
    path.write_text(html(MAKERS[name]()), encoding="utf-8")
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    loaded = list(asked)
    for summary in page.query_selector_all("summary"):
        summary.click()
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    found = violations(page, "html")
    too_wide = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    context.close()

    assert [path.as_uri()] == loaded
    assert [] == errors
    assert ("rgb(255, 255, 255)" == background) is (scheme == "light")
    assert [] == found
    assert 0 >= too_wide
