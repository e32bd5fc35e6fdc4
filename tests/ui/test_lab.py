"""The explorer notebook in JupyterLab and in Notebook 7."""

from collections.abc import Iterator

import pytest

from tests.ui import lab, servers

pytestmark = pytest.mark.browser

PLACES = {
    "JupyterLab": (servers.jupyterlab, lab.run_all),
    "Notebook 7": (servers.notebook7, lab.run_all_in_notebook7),
}
OURS = ("planner", "widget", "anywidget", "comm", "plotly")


@pytest.fixture(scope="module", params=PLACES)
def page(browser, tmp_path_factory, request) -> Iterator[object]:
    """The notebook with all of its cells run, and what its console said."""
    serve, run_all = PLACES[request.param]
    folder = tmp_path_factory.mktemp("notebook")
    path = servers.notebook("explorer", folder)
    with serve(folder) as address:
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        opened = context.new_page()
        opened.said = []
        opened.on("console", lambda said: opened.said.append((said.type, said.text)))
        run_all(opened, address, path)
        bars = opened.locator(".planner-chart .barlayer .point path").first
        bars.wait_for(state="attached", timeout=lab.SLOW)
        yield opened
        context.close()


def explorer(page):
    """The notebook's first explorer; the last cells open another one."""
    return page.locator(".planner-explorer").first


def expect_command(page, flag: str) -> None:
    """Wait until the explorer's command holds `flag`."""
    line = explorer(page).locator(".pl-command code", has_text=flag)
    line.first.wait_for(timeout=lab.SLOW)


def test_the_explorer_draws_a_plan_that_fits(page) -> None:
    """The same verdict and command as in the app."""
    expect_command(page, "vllm serve meta-llama/Llama-3.1-8B-Instruct")
    verdict = explorer(page).locator(".planner-verdict", has_text="Fits").first
    verdict.wait_for(timeout=lab.SLOW)

    assert "does not" not in verdict.inner_text().lower()


def test_a_number_that_is_typed_changes_the_plan(page) -> None:
    """Typed and entered; taken back by emptying it."""
    entry = explorer(page).get_by_role("textbox", name="max_num_seqs").first
    entry.scroll_into_view_if_needed()
    entry.fill("64")
    entry.press("Enter")
    expect_command(page, "--max-num-seqs 64")
    entry.fill("")
    entry.press("Enter")
    explorer(page).locator(
        ".pl-command code", has_not_text="--max-num-seqs"
    ).first.wait_for()


def test_a_slider_keeps_the_keys_for_itself(page) -> None:
    """Notebooks have shortcuts on arrows and letters, which fold or delete cells."""
    cells = page.locator(".jp-Cell").count()
    slider = explorer(page).get_by_role("slider", name="gpu_memory_utilization").first
    slider.focus()
    before = int(slider.input_value())
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("x")
    expect_command(page, "--gpu-memory-utilization")

    assert before - 3 == int(slider.input_value())
    assert slider.evaluate("node => node === document.activeElement")
    assert cells == page.locator(".jp-Cell:visible").count()


def test_a_shortcut_with_control_still_reaches_the_notebook(page) -> None:
    """Ctrl+S saves, also with the focus on a slider."""
    slider = explorer(page).get_by_role("slider", name="gpu_memory_utilization").first
    slider.focus()
    with page.expect_response(
        lambda answer: answer.request.method == "PUT" and "explorer.ipynb" in answer.url
    ) as saved:
        page.keyboard.press("Control+s")

    assert saved.value.ok


def test_the_run_panel_opens(page) -> None:
    """A notebook is the user's own: plans may be run from it."""
    toggle = explorer(page).get_by_role("tab", name="Run", exact=True).first
    toggle.scroll_into_view_if_needed()
    toggle.click()
    explorer(page).locator(".planner-run-start").first.wait_for(timeout=lab.SLOW)


def test_the_console_tells_no_error_of_ours(page) -> None:
    """Whatever Jupyter says of itself."""
    errors = [text for kind, text in page.said if kind == "error"]

    assert [] == [text for text in errors if any(name in text for name in OURS)]
