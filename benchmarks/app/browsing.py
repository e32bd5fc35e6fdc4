"""The app in a real browser: first chart, and slider step to chart.

A first chart is measured from the start of the navigation to the first bar in the page.
A step is one key press on a slider, measured in the page from the key event to the
first bar whose outline has changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from tests.ui import servers

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Browser
    from playwright.sync_api import BrowserContext, Page

NUM_STEPS = 40
POOL_PAUSE_SECONDS = 3.0
"""Lets the server start the kernel that replaces the one just used."""
SLIDER = "gpu_memory_utilization"
_SETTLED_MS = 1500
_BETWEEN_STEPS_MS = 100
_SLOW_MS = 60_000

BARS = ".planner-chart .barlayer .point path"


def first_chart(bars: str) -> str:
    """Return a script that answers when the first bar is in the page."""
    return f"""() => new Promise(done => {{
      const look = () => document.querySelector('{bars}')
        ? done(performance.now()) : setTimeout(look, 2);
      look();
    }})"""


FIRST_CHART = first_chart(BARS)

_CONTROLS = """() => new Promise(done => {
  const look = () => document.querySelector('.pc-controls input[type=range]')
    ? done(performance.now()) : setTimeout(look, 2);
  look();
})"""

ARM = """bars => {
  const outlines = () => [...document.querySelectorAll(bars)]
    .map(path => path.getAttribute('d')).join();
  const before = outlines();
  window.stepTime = new Promise((done, fail) => {
    setTimeout(() => fail(new Error('no bar has changed')), 10000);
    document.addEventListener('keydown', event => {
      const pressed = event.timeStamp;
      const watch = new MutationObserver(() => {
        const now = outlines();
        if (now === before || now === '') return;
        watch.disconnect();
        done(performance.now() - pressed);
      });
      watch.observe(document.body,
        { subtree: true, childList: true, attributes: true });
    }, { once: true, capture: true });
  });
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Seconds from the start of the navigation."""

    first_chart: float
    controls: float
    """Until the last kind of control, the sliders, can be used."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=servers.chromium(), args=list(servers.CHROMIUM_FLAGS)
        )
        yield browser
        browser.close()


def new_context(browser: Browser) -> BrowserContext:
    """Return a profile that has never seen the app."""
    return browser.new_context(viewport={"width": 1280, "height": 900})


def opened(context: BrowserContext, address: str) -> tuple[Page, Opening]:
    """Open the app in a new page."""
    page = context.new_page()
    page.set_default_timeout(_SLOW_MS)
    page.goto(address, wait_until="commit")
    first = float(page.evaluate(FIRST_CHART)) / 1000
    return page, Opening(
        first_chart=first, controls=float(page.evaluate(_CONTROLS)) / 1000
    )


def closed(page: Page) -> None:
    """Leave the page as a visitor does, which ends the kernel."""
    page.wait_for_timeout(500)
    page.goto("about:blank")
    page.close()


def openings(
    browser: Browser, address: str, number: int, pause_seconds: float
) -> tuple[list[Opening], list[Opening]]:
    """Open the app in new profiles, once cold and once again warm each."""
    cold: list[Opening] = []
    warm: list[Opening] = []
    for _ in range(number):
        context = new_context(browser)
        for times in (cold, warm):
            time.sleep(pause_seconds)
            page, opening = opened(context, address)
            times.append(opening)
            closed(page)
        context.close()
    return cold, warm


@contextmanager
def main_thread(page: Page) -> Iterator[list[float]]:
    """Yield a list that gets the seconds of processor time of a page's main thread."""
    told = page.context.new_cdp_session(page)
    told.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds() -> float:
        found = told.send("Performance.getMetrics")["metrics"]
        return next(
            float(one["value"]) for one in found if one["name"] == "TaskDuration"
        )

    began = seconds()
    spent: list[float] = []
    yield spent
    spent.append(seconds() - began)


def slider_steps(page: Page, number: int = NUM_STEPS, bars: str = BARS) -> list[float]:
    """Press a slider's keys, half of them left, half right; returns seconds."""
    handle = page.get_by_role("slider", name=SLIDER).first
    handle.wait_for(state="visible", timeout=_SLOW_MS)
    page.wait_for_timeout(_SETTLED_MS)
    handle.focus()
    times = []
    for step in range(number):
        page.evaluate(ARM, bars)
        page.keyboard.press("ArrowLeft" if step < number // 2 else "ArrowRight")
        times.append(float(page.evaluate("window.stepTime")) / 1000)
        page.wait_for_timeout(_BETWEEN_STEPS_MS)
    return times
