"""Measure the app in a real browser: first chart, and slider step to chart.

    python benchmarks/app.py        prints the times, exits 1 over the limits

Voila serves the app on a free loopback port with kernels that have run the notebook;
headless Chromium opens it. A first chart is measured from the start of the navigation
to the first bar in the page, in a browser that has never seen the app (cold) and in one
that has (warm). A step is one key press on a slider, measured in the page from the key
event to the first bar whose outline has changed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402

from tests.ui import servers  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

STEPS = 40
FIRST_CHARTS = 5
STEP_LIMIT_MS = 100
FIRST_CHART_LIMIT_MS = 1500
_POOL_PAUSE_SECONDS = 3
"""Lets Voila start the kernel that replaces the one just used."""

FIRST_CHART = """() => new Promise(done => {
  const look = () => document.querySelector('.planner-chart .barlayer .point path')
    ? done(performance.now()) : setTimeout(look, 2);
  look();
})"""

_CONTROLS = """() => new Promise(done => {
  const look = () => document.querySelector('.planner-field .noUi-handle')
    ? done(performance.now()) : setTimeout(look, 2);
  look();
})"""

ARM = """() => {
  const bars = () => [...document.querySelectorAll('.planner-chart .point path')]
    .map(path => path.getAttribute('d')).join();
  const before = bars();
  window.stepTime = new Promise(done => {
    document.addEventListener('keydown', event => {
      const pressed = event.timeStamp;
      const watch = new MutationObserver(() => {
        if (bars() === before) return;
        watch.disconnect();
        done(performance.now() - pressed);
      });
      watch.observe(document.querySelector('.planner-chart'),
        { subtree: true, childList: true, attributes: true });
    }, { once: true, capture: true });
  });
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Milliseconds from the start of the navigation."""

    first_chart: float
    controls: float
    """Until the last kind of control, the sliders, can be used."""


def openings(browser: Browser, address: str) -> tuple[list[Opening], list[Opening]]:
    """Open the app in new browser profiles, once cold and once again warm each."""
    cold, warm = [], []
    for _ in range(FIRST_CHARTS):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        cold.append(_open(context, address))
        warm.append(_open(context, address))
        context.close()
    return cold, warm


def _open(context: BrowserContext, address: str) -> Opening:
    time.sleep(_POOL_PAUSE_SECONDS)
    page = context.new_page()
    page.goto(address, wait_until="commit")
    opening = Opening(
        first_chart=float(page.evaluate(FIRST_CHART)),
        controls=float(page.evaluate(_CONTROLS)),
    )
    page.wait_for_timeout(500)
    page.goto("about:blank")  # ends the kernel
    page.close()
    return opening


def steps(browser: Browser, address: str) -> list[float]:
    """Press a slider's keys and time each change of the bars."""
    time.sleep(_POOL_PAUSE_SECONDS)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    page.evaluate(FIRST_CHART)
    page.wait_for_timeout(1500)
    handle = page.get_by_role("slider", name="gpu_memory_utilization")
    handle.focus()
    times = [_step(page, number) for number in range(STEPS)]
    page.close()
    return times


def _step(page: Page, number: int) -> float:
    page.evaluate(ARM)
    page.keyboard.press("ArrowLeft" if number < STEPS // 2 else "ArrowRight")
    elapsed = float(page.evaluate("window.stepTime"))
    page.wait_for_timeout(100)
    return elapsed


def p95(times: list[float]) -> float:
    """Return the 95th percentile."""
    return quantiles(times, n=20, method="inclusive")[-1]


@contextmanager
def browser_on_app() -> Iterator[tuple[Browser, str]]:
    """Serve the app and open a headless browser."""
    with tempfile.TemporaryDirectory() as folder:
        app = servers.notebook("app", Path(folder))
        with servers.voila(app) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=servers.chromium(), args=list(servers.CHROMIUM_FLAGS)
            )
            yield browser, address
            browser.close()


def main() -> int:
    """Measure, print, and say whether the limits hold."""
    with browser_on_app() as (browser, address):
        cold, warm = openings(browser, address)
        step_times = steps(browser, address)
    for name, opened in (("cold", cold), ("warm", warm)):
        charts = [opening.first_chart for opening in opened]
        print(
            f"first chart, {name} browser: median {median(charts):5.0f} ms, "
            f"slowest {max(charts):5.0f} ms of {len(charts)}; controls alive: median "
            f"{median(opening.controls for opening in opened):5.0f} ms"
        )
    print(
        f"slider step to chart:      median {median(step_times):5.1f} ms, "
        f"95th percentile {p95(step_times):.1f} ms of {len(step_times)}"
    )
    first = median(opening.first_chart for opening in cold)
    is_fast = p95(step_times) <= STEP_LIMIT_MS and first <= FIRST_CHART_LIMIT_MS
    print(f"limits: {STEP_LIMIT_MS} ms (p95), {FIRST_CHART_LIMIT_MS} ms (cold, median)")
    return 0 if is_fast else 1


if __name__ == "__main__":
    sys.exit(main())
