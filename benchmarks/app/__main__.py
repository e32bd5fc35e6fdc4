"""Measure the app and the best alternative: `make bench-app`.

    python -m benchmarks.app                    all of it, into docs/performance.md
    python -m benchmarks.app --only steps many  some of it, printed only

Everything runs on two cores, also where there are more, and the browsers and the
visitors' program share them with the server.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable

from benchmarks.app import figures
from benchmarks.app.many import many
from benchmarks.app.pages import first_charts, notebooks, steps
from benchmarks.app.streamlit import alternative

_CORES = 2
_PARTS: dict[str, Callable[[argparse.Namespace], list[figures.Figure]]] = {
    "steps": steps,
    "first": first_charts,
    "notebooks": notebooks,
    "many": many,
    "alternative": alternative,
}


def main() -> int:
    """Measure, print, write, and say whether the limits hold."""
    parser = argparse.ArgumentParser(prog="benchmarks.app", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--visitors", type=int, default=30, help="at the same moment")
    parser.add_argument("--browsers", type=int, default=2, help="beside the visitors")
    parser.add_argument("--seconds", type=float, default=20, help="that all move")
    parser.add_argument("--streamlit", help="a Python that has Streamlit and plotly")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:_CORES]
    os.sched_setaffinity(0, cores)
    load = os.getloadavg()[0]
    found: list[figures.Figure] = []
    for part in options.only:
        print(f"Measuring: {part} ...", file=sys.stderr, flush=True)
        found += _PARTS[part](options)
    table = figures.beside(found)
    print(figures.as_text(table))
    if set(options.only) == set(_PARTS):
        text = f"{_machine(len(cores), load)}\n\n{figures.as_markdown(table)}"
        figures.write("app", text)
    return 0 if all(figure.holds for figure in table) else 1


def _machine(cores: int, load: float) -> str:
    versions = figures.versions(
        "voila", "jupyterlab", "notebook", "ipywidgets", "anywidget", "plotly"
    )
    return (
        f"Measured on {cores} cores ({platform.machine()}), load {load:.1f} before the "
        f"start; {versions}."
    )


if __name__ == "__main__":
    sys.exit(main())
