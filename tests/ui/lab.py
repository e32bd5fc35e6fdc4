"""Opens a notebook in JupyterLab and runs it, however slowly JupyterLab wakes up."""

from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api")

SLOW = 40_000
OPEN = 20_000
CLICK = 5_000
ATTEMPTS = 4


def run_all(page, address: str, notebook: Path) -> None:
    """Open the notebook in a page of the browser and run all of its cells.

    JupyterLab, barely open, loses clicks and asks questions: those that nobody awaits
    are sent away, and what was lost is done again.
    """
    page.set_default_timeout(CLICK)
    for attempt in range(ATTEMPTS):
        try:
            if attempt in (0, ATTEMPTS - 2):
                _open(page, f"{address}lab/tree/{notebook.name}?reset")
            _run(page)
        except sync_api.TimeoutError:
            asked = page.locator("dialog.jp-Dialog").all_inner_texts()
            page.keyboard.press("Escape")
            if attempt == ATTEMPTS - 1:
                raise AssertionError(f"JupyterLab does not run: {asked}") from None
        else:
            break
    page.set_default_timeout(SLOW)


def _open(page, address: str) -> None:
    page.goto(address, timeout=SLOW)
    page.get_by_text("Kernel status: Idle").wait_for(state="attached", timeout=OPEN)
    page.locator(".jp-CodeCell").first.wait_for(state="attached")


def _run(page) -> None:
    """Choose from the menu, and see a prompt change: to a star or to a number."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(
        "[...document.querySelectorAll('.jp-InputPrompt')]"
        ".some(prompt => /\\[(\\*|\\d+)\\]/.test(prompt.textContent))"
    )
