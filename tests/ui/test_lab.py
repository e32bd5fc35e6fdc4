"""The explorer notebook in JupyterLab."""

import pytest

from tests.ui import servers
from tests.ui.lab import SLOW, run_all

pytestmark = pytest.mark.browser


def test_the_explorer_draws_in_jupyterlab(browser, tmp_path) -> None:
    """Run all cells: a chart, and a change through a control."""
    path = servers.notebook("explorer", tmp_path)
    with servers.jupyterlab(tmp_path) as address:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        run_all(page, address, path)
        bars = page.locator(".planner-chart .barlayer .point path").first
        bars.wait_for(state="attached", timeout=SLOW)
        bars.scroll_into_view_if_needed()
        entry = page.get_by_role("textbox", name="max_num_seqs").first
        entry.fill("64")
        entry.press("Enter")
        page.locator(".pl-command code", has_text="--max-num-seqs 64").first.wait_for(
            timeout=SLOW
        )

        assert "Fits" in page.locator(".planner-verdict").first.inner_text()
        page.close()
