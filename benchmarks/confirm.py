"""Measure how the page answers while vLLM starts: slider step to chart.

    PLANNER_VLLM_PYTHON=... python benchmarks/confirm.py

The explorer plans a tiny model for this machine's processor; Run starts vLLM's CPU
build, and until it is ready a slider's keys are pressed, each timed in the page from
the key event to the first bar whose outline has changed. The processor's cores are
shared with vLLM here, more than where vLLM has a GPU.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import cycle
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Page, sync_playwright  # noqa: E402

from benchmarks.app.browsing import ARM, BARS, FIRST_CHART  # noqa: E402
from benchmarks.app.figures import p95  # noqa: E402
from planner.confirming import installation  # noqa: E402
from tests.ui import servers  # noqa: E402

LIMIT_MS = 200
_PAUSE_MS = 250
_CELL = """\
from planner.app.widgets.explorer import Explorer
Explorer({folder!r}, "CPU", dtype="float32", gpu_memory_utilization=0.15,
         max_model_len=1024, vllm_version={release!r})"""
_IS_READY = """() => !['checking', 'starting', 'loading weights', 'compiling',
  'profiling', 'KV cache', 'capturing graphs'].some(
    stage => document.querySelector('.pl-run-stage').textContent.includes(stage))"""


def main() -> int:
    """Measure, print, and say whether the limit holds."""
    found = installation.find()
    model = str(ROOT / "tests" / "tiny" / "dense")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cell = _CELL.format(folder=model, release=found.version)
        notebook = servers.write("run", folder, [cell])
        with servers.voila(notebook) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=servers.chromium(), args=list(servers.CHROMIUM_FLAGS)
            )
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(servers.start_address(address))
            page.evaluate(FIRST_CHART)
            idle = _steps(page, 20)
            page.get_by_role("tab", name="Run", exact=True).click()
            page.get_by_role("button", name="Run", exact=True).click()
            page.locator(".pl-run-stage", has_text="starting").wait_for()
            busy = _steps(page, None)
            browser.close()
    for words, times in (("vLLM does not run", idle), ("vLLM starts", busy)):
        print(
            f"slider step to chart while {words}: median {median(times):5.1f} ms, "
            f"95th percentile {p95(times):5.1f} ms, slowest {max(times):5.1f} ms of "
            f"{len(times)}"
        )
    print(f"limit: {LIMIT_MS} ms (p95)")
    return 0 if p95(busy) <= LIMIT_MS else 1


def _steps(page: Page, count: int | None) -> list[float]:
    """Press a slider's keys, so often or until vLLM is ready; return milliseconds."""
    handle = page.get_by_role("slider", name="gpu_memory_utilization")
    handle.focus()
    times: list[float] = []
    for key in cycle(["ArrowRight"] * 5 + ["ArrowLeft"] * 5):
        if len(times) == count or (count is None and page.evaluate(_IS_READY)):
            return times
        page.evaluate(ARM, BARS)
        page.keyboard.press(key)
        times.append(float(page.evaluate("window.stepTime")))
        page.wait_for_timeout(_PAUSE_MS)
    return times


if __name__ == "__main__":
    sys.exit(main())
