"""The explorer notebook in JupyterLab."""

import pytest

from tests.ui import servers

sync_api = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.browser

SLOW = 40_000


def run_until_drawn(page, bars) -> None:
    """Run all cells, once more where JupyterLab, barely open, lost the first click."""
    for patience in (12_000, SLOW):
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        try:
            # JupyterLab scrolls to the last cell and hides what is out of sight.
            bars.wait_for(state="attached", timeout=patience)
        except sync_api.TimeoutError:
            if patience == SLOW:
                raise
        else:
            return


def test_the_explorer_draws_in_jupyterlab(browser, tmp_path) -> None:
    """Run all cells: a chart, and a change through a control."""
    path = servers.notebook("explorer", tmp_path)
    with servers.jupyterlab(tmp_path) as address:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.goto(f"{address}lab/tree/{path.name}?reset")
        page.get_by_text("Kernel status: Idle").wait_for(state="attached", timeout=SLOW)
        bars = page.locator(".planner-chart .barlayer .point path").first
        run_until_drawn(page, bars)
        bars.scroll_into_view_if_needed()
        entry = page.get_by_label("max_num_seqs").first
        entry.fill("64")
        entry.press("Enter")
        page.locator(".pl-command code", has_text="--max-num-seqs 64").first.wait_for(
            timeout=SLOW
        )

        assert "Fits" in page.locator(".planner-verdict").first.inner_text()
        page.close()
