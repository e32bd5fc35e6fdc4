"""The Run panel in JupyterLab, with vLLM's CPU build behind it."""

import os
from pathlib import Path

import pytest

from tests.starts import descendants
from tests.ui import run_pages, servers
from tests.ui.run_pages import BARS
from tests.vllm.conftest import TINY

pytestmark = pytest.mark.browser

START_MS = 240_000
EXPLORER = """\
from planner.app.widgets.explorer import Explorer
Explorer(
    {folder!r},
    "CPU",
    dtype="float32",
    gpu_memory_utilization=0.15,
    max_model_len=1024,
    enforce_eager=True,
    vllm_version={release!r},
)"""


@pytest.fixture(autouse=True)
def _nothing_is_left() -> None:
    """The browser stays for other tests; this module looks itself."""


@pytest.fixture
def page(browser, release, tmp_path, monkeypatch):
    """The explorer on a model of two layers, in JupyterLab, with its panel open."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "kept"))
    cell = EXPLORER.format(folder=str(TINY / "dense"), release=release)
    notebook = servers.write("run", tmp_path, [cell])
    with servers.jupyterlab(tmp_path) as address:
        opened = run_pages.open_in_lab(browser, address, notebook)
        run_pages.open_panel(opened)
        yield opened
        opened.context.close()


def started() -> set[int]:
    """What runs below this test, but for the browser's own processes."""
    return {pid for pid in descendants(os.getpid()) if "chrom" not in _name(pid)}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def move_slider(page, key: str, share: str) -> None:
    """Press a key on the slider and wait for the plan."""
    handle = page.get_by_role("slider", name="gpu_memory_utilization")
    handle.focus()
    handle.press(key)
    page.locator(
        ".planner-results .pl-command code",
        has_text=f"--gpu-memory-utilization {share}",
    ).first.wait_for(timeout=run_pages.PATIENCE)


def test_run_stop_and_run_to_the_end(page, release) -> None:
    """Stop leaves no process; a whole run shows both bars, and axe-core passes."""
    page.locator(".pl-installed", has_text=f"vLLM {release} (CPU build)").wait_for(
        timeout=run_pages.PATIENCE
    )
    before = started()
    run_pages.press(page, "Run")
    run_pages.wait_for_stage(page, "starting", run_pages.PATIENCE)
    during = started()
    move_slider(page, "ArrowRight", "0.16")
    run_pages.wait_for_state(page, "running")
    move_slider(page, "ArrowLeft", "0.15")
    run_pages.press(page, "Stop")
    run_pages.wait_for_state(page, "ended")
    stopped = page.locator(".pl-run-stage").inner_text()
    left = started() - before
    run_pages.press(page, "Run")
    page.locator(BARS).first.wait_for(state="attached", timeout=START_MS)
    run_pages.wait_for_state(page, "ended", START_MS)
    given = page.locator(".pl-given").inner_text()
    served = page.locator(".pl-served").inner_text()

    assert during - before
    assert "Not decided" in stopped
    assert left == set()
    assert "exactly what vLLM says" in given
    assert "It serves: one prompt was answered with" in served
    assert run_pages.violations(page, ".planner-explorer") == []
    assert started() - before == set()
    if os.environ.get("PLANNER_SHOTS"):
        page.set_viewport_size({"width": 1400, "height": 2400})
        page.wait_for_timeout(800)
        page.locator(".planner-run").screenshot(
            path=Path(os.environ["PLANNER_SHOTS"]) / "real-cpu.png"
        )
