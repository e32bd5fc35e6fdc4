"""How long the browser-only edition takes until the explorer's first chart.

    make bench-lite                        into docs/workshop/setting-up.md
    python -m benchmarks.lite --no-write   a rehearsal

The site has to be built (`make lite`). A browser that was never there opens it, and
then the same browser anew, with what it kept. All cells are run as soon as they can be.
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
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.app import figures
from benchmarks.app.figures import ROOT, Figure
from tests.ui import lite, servers

PAGE = ROOT / "docs" / "workshop" / "setting-up.md"
CHART = ".planner-explorer .planner-chart .barlayer .point path"
LIMIT_SECONDS = 15.0
ROUNDS = 3
KINDS = ("a browser that was never there", "the same browser, the next time")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write; the exit status is 1 where the limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--no-write", action="store_true")
    asked = parser.parse_args(arguments)
    if not lite.SITE.is_dir():
        raise SystemExit(f"There is no {lite.SITE}: build it with make lite.")
    measured = measure(asked.rounds)
    print(figures.as_text(measured))
    if not asked.no_write:
        figures.write("lite", table(measured), PAGE)
    return 0 if all(figure.holds for figure in measured) else 1


def measure(rounds: int) -> list[Figure]:
    """Return the median of as many openings of each kind."""
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with lite.served(lite.SITE) as address, sync_playwright() as playwright:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as profile:
                for kind in KINDS:
                    with _browser(playwright, profile) as page:
                        seconds[kind].append(_seconds_to_chart(page, address))
    return [
        Figure(name=kind, value=median(taken), unit="s", limit=LIMIT_SECONDS)
        for kind, taken in seconds.items()
    ]


def table(measured: list[Figure]) -> str:
    """Write the figures with where they were measured."""
    size = sum(one.stat().st_size for one in lite.SITE.rglob("*") if one.is_file())
    rows = [
        f"| {one.name} | {figures.told(one.limit, one.unit)} "
        f"| {figures.told(one.value, one.unit)}{'' if one.holds else ' ✘'} |"
        for one in measured
    ]
    return "\n".join(
        [
            "| From opening the explorer to its first chart | limit | measured |",
            "| --- | ---: | ---: |",
            *rows,
            "",
            f"Median of {ROUNDS}, Chromium on {os.cpu_count()} processors "
            f"({platform.machine()}), host and browser on one machine, all cells run "
            f"at once; the site has {size / figures.MB:.0f} MB.",
        ]
    )


@contextmanager
def _browser(playwright: Any, profile: str) -> Iterator[Any]:  # noqa: ANN401
    context = playwright.chromium.launch_persistent_context(
        Path(profile),
        executable_path=servers.chromium(),
        args=[*servers.CHROMIUM_FLAGS, lite.CUT],
        viewport={"width": 1280, "height": 900},
    )
    try:
        yield context.pages[0]
    finally:
        context.close()


def _seconds_to_chart(page: Any, address: str) -> float:  # noqa: ANN401
    begin = time.perf_counter()
    lite.open_notebook(page, address, "explorer.ipynb")
    page.locator(CHART).first.wait_for(state="attached")
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
