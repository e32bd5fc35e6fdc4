"""How long the browser-only edition takes until it can be used, and what it takes.

    make bench-lite                        into docs/workshop/setting-up.md
    python -m benchmarks.lite --no-write   a rehearsal

The site has to be built (`make lite`). A browser that was never there opens the app,
and then the same browser again, with what it kept; on a desk and on a phone's screen.
Then six lessons are opened beside each other, and all of their cells run.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.app import figures, processes
from benchmarks.app.figures import MB, ROOT, Figure
from tests.ui import lab, lite, servers

PAGE = ROOT / "docs" / "workshop" / "setting-up.md"
BARS = ".barlayer .point path"
CHART = f".planner-chart {BARS}"
ALIVE = f".planner-explorer:not(.planner-snapshot) {CHART}"
LESSONS = "workshop/*.ipynb"
WIDTHS = {"1280 px": 1280, "a phone's 390 px": 390}
LIMITS_SECONDS = {"first visit": 10.0, "second visit": 6.0}
LESSON_SECONDS = 20.0
LIMIT_MB = 600.0
ROUNDS = 3
QUIET_SECONDS = 3.0
KINDS = tuple(
    f"app, {width}, {visit}, {what}"
    for width, visit, what in product(
        WIDTHS, LIMITS_SECONDS, ("first chart", "its controls answer")
    )
)
LESSON_KINDS = tuple(f"lesson 1 has run, {visit}" for visit in LIMITS_SECONDS)
NEXT = "another lesson beside it has run"
PYTHONS = "six lessons open: Pythons"
MEMORY = "six lessons open: memory of the page, garbage collected"
LIMITS = (
    dict(zip(KINDS, (10.0, 10.0, 6.0, 10.0) * len(WIDTHS), strict=True))
    | dict.fromkeys((*LESSON_KINDS, NEXT), LESSON_SECONDS)
    | {PYTHONS: 1.0, MEMORY: LIMIT_MB}
)
UNITS = {PYTHONS: "", MEMORY: "MB"}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write; the exit status is 1 where a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--no-write", action="store_true")
    asked = parser.parse_args(arguments)
    if not lite.SITE.is_dir():
        raise SystemExit(f"There is no {lite.SITE}: build it with make lite.")
    measured = measure(asked.rounds)
    print(figures.as_text(measured))
    if not asked.no_write:
        figures.write("lite", table(measured, asked.rounds), PAGE)
    return 0 if all(figure.holds for figure in measured) else 1


def measure(rounds: int) -> list[Figure]:
    """Return the median of as many rounds of each figure."""
    found: dict[str, list[float]] = {name: [] for name in LIMITS}
    with lite.served(lite.SITE) as address, sync_playwright() as playwright:
        for _ in range(rounds):
            for name, value in _round(playwright, address):
                found[name].append(value)
    return [_figure(name, median(values)) for name, values in found.items()]


def _figure(name: str, value: float) -> Figure:
    unit = UNITS.get(name, "s")
    return Figure(name=name, value=value, unit=unit, limit=LIMITS[name])


def _round(playwright: Any, address: str) -> Iterator[tuple[str, float]]:  # noqa: ANN401
    kinds = iter(KINDS)
    for width in WIDTHS.values():
        with tempfile.TemporaryDirectory() as profile:
            for _visit in LIMITS_SECONDS:
                with _browser(playwright, profile, width) as page:
                    for seconds in _app(page, address):
                        yield next(kinds), seconds
    with tempfile.TemporaryDirectory() as profile:
        with _browser(playwright, profile, 1280) as page:
            yield LESSON_KINDS[0], _lesson(page, address)
        with _browser(playwright, profile, 1280) as page:
            yield LESSON_KINDS[1], _lesson(page, address)
            yield from _six(page)


def _app(page: Any, address: str) -> tuple[float, float]:  # noqa: ANN401
    """Return the seconds to the chart in the page, and to the one of live controls."""
    begin = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.locator(CHART).first.wait_for(state="attached")
    drawn = time.perf_counter() - begin
    page.locator(ALIVE).first.wait_for(state="attached")
    return drawn, time.perf_counter() - begin


def _lesson(page: Any, address: str) -> float:  # noqa: ANN401
    """Return the seconds until the first lesson has run from top to bottom."""
    begin = time.perf_counter()
    lite.open_notebook(page, address, _lessons()[0])
    lite.outputs(page)
    return time.perf_counter() - begin


def _six(page: Any) -> Iterator[tuple[str, float]]:  # noqa: ANN401
    """Open the other lessons too; yield what one more takes, and all of them."""
    taken = []
    for lesson in _lessons()[1:]:
        begin = time.perf_counter()
        lite.open_another(page, lesson)
        lab.run_open(page)
        lite.outputs(page)
        taken.append(time.perf_counter() - begin)
    yield NEXT, median(taken)
    yield PYTHONS, float(len(page.workers))
    page.context.new_cdp_session(page).send("HeapProfiler.collectGarbage")
    time.sleep(QUIET_SECONDS)
    found = processes.family(os.getpid()).descendants
    pages = [one.pss_bytes for one in found if "--type=renderer" in one.command]
    yield MEMORY, max(pages) / MB


def _lessons() -> list[str]:
    """Return the six of the course; the one on Ray, which is optional, is the last."""
    files = lite.SITE / "files"
    found = sorted(path.relative_to(files).as_posix() for path in files.glob(LESSONS))
    return found[:6]


def table(measured: list[Figure], rounds: int = ROUNDS) -> str:
    """Write the figures with where they were measured."""
    size = sum(one.stat().st_size for one in lite.SITE.rglob("*") if one.is_file())
    rows = [
        f"| {one.name} | {figures.told(one.limit, one.unit)} "
        f"| {figures.told(one.value, one.unit)}{'' if one.holds else ' ✘'} |"
        for one in measured
    ]
    return "\n".join(
        [
            "| From opening the address | limit | measured |",
            "| --- | ---: | ---: |",
            *rows,
            "",
            f"Median of {rounds}, Chromium on {os.cpu_count()} processors "
            f"({platform.machine()}), host and browser on one machine, load "
            f"{os.getloadavg()[2]:.1f}; the site has {size / MB:.0f} MB.",
        ]
    )


@contextmanager
def _browser(playwright: Any, profile: str, width: int) -> Iterator[Any]:  # noqa: ANN401
    context = playwright.chromium.launch_persistent_context(
        Path(profile),
        executable_path=servers.chromium(),
        args=[*servers.CHROMIUM_FLAGS, lite.CUT],
        viewport={"width": width, "height": 900},
    )
    try:
        page = context.pages[0]
        page.set_default_timeout(lite.SLOW)
        yield page
    finally:
        context.close()


if __name__ == "__main__":
    sys.exit(main())
