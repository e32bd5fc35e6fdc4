"""One visitor in a browser: first charts and slider steps, served and in notebooks."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path
from statistics import median

from benchmarks.app import browsing, served
from benchmarks.app.figures import Figure
from benchmarks.app.figures import steps as step_figures
from tests.ui import lab, servers

PAGE_WORK = "processor time of a step, the page's main thread"
STEP = "slider key press to changed bars"
FIRST_CHART = "first chart, preheated kernel"
STEP_LIMIT_MS = 25
NOTEBOOK_STEP_LIMIT_MS = 35
PREHEATED_LIMIT_SECONDS = 1.0
COLD_KERNEL_LIMIT_SECONDS = 2.5
_OPENINGS = 5


def steps(options: Namespace) -> list[Figure]:
    """Slider to chart in Voilà, and what it takes of the page's main thread."""
    with served.app(2, options.root) as address, browsing.chromium() as browser:
        page, _opening = browsing.opened(browsing.new_context(browser), address)
        with browsing.main_thread(page) as work:
            times = browsing.slider_steps(page)
        browsing.closed(page)
    return [
        *step_figures(STEP, times, p95_limit_ms=STEP_LIMIT_MS),
        _page_work(PAGE_WORK, work, len(times)),
    ]


def _page_work(name: str, work: list[float], number: int) -> Figure:
    return Figure(name=name, value=1000 * work[0] / number, unit="ms")


def first_charts(options: Namespace) -> list[Figure]:
    """First charts, with a kernel that waits and with none."""
    pause = browsing.POOL_PAUSE_SECONDS
    with served.app(2, options.root) as address, browsing.chromium() as browser:
        cold, warm = browsing.openings(browser, address, _OPENINGS, pause)
    with served.app(0, options.root) as address, browsing.chromium() as browser:
        fresh, _again = browsing.openings(browser, address, _OPENINGS, 1.0)
    return [
        _first(FIRST_CHART, cold, PREHEATED_LIMIT_SECONDS),
        _first("the same, browser that has been here before", warm, None),
        _first("first chart, no kernel waiting", fresh, COLD_KERNEL_LIMIT_SECONDS),
        Figure(
            name="controls alive, preheated kernel",
            value=median(opening.controls for opening in cold),
            unit="s",
        ),
    ]


def _first(name: str, opened: list[browsing.Opening], limit: float | None) -> Figure:
    charts = [opening.first_chart for opening in opened]
    return Figure(
        name=name,
        value=median(charts),
        unit="s",
        limit=limit,
        note=f"median of {len(charts)}, slowest {max(charts):.2f} s",
    )


def notebooks(options: Namespace) -> list[Figure]:
    """The same step in JupyterLab and in Notebook 7."""
    found: list[Figure] = []
    for name, serve, run in (
        ("JupyterLab", servers.jupyterlab, lab.run_all),
        ("Notebook 7", servers.notebook7, lab.run_all_in_notebook7),
    ):
        with tempfile.TemporaryDirectory() as folder:
            path = servers.notebook("explorer", Path(folder), options.root)
            served_one = serve(Path(folder), root=options.root)
            with served_one as address, browsing.chromium() as browser:
                page = browsing.new_context(browser).new_page()
                run(page, address, path)
                page.evaluate(browsing.FIRST_CHART)
                with browsing.main_thread(page) as work:
                    times = browsing.slider_steps(page)
        limit = NOTEBOOK_STEP_LIMIT_MS
        found += step_figures(f"the same in {name}", times, p95_limit_ms=limit)
        found.append(_page_work(f"{PAGE_WORK} in {name}", work, len(times)))
    return found
