"""Measure the app and the best alternative: `make bench-app`.

    python -m benchmarks.app                    all of it, into docs/performance.md
    python -m benchmarks.app --only steps many  some of it, printed only
    python -m benchmarks.app --before 081973b   each part by turns with an older commit

With `--before` each part is measured three times of either, by turns, and of each
figure the one in the middle counts: other work on the machine meets both alike.

Everything runs on two cores, also where there are more, and the browsers and the
visitors' program share them with the server.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.app import figures, served
from benchmarks.app.many import many
from benchmarks.app.pages import first_charts, notebooks, steps
from benchmarks.app.streamlit import alternative
from tests.ui import servers

_CORES = 2
_ROUNDS = 3
Part = Callable[[argparse.Namespace], list[figures.Figure]]
_PARTS: dict[str, Part] = {
    "steps": steps,
    "first": first_charts,
    "notebooks": notebooks,
    "many": many,
    "alternative": alternative,
}
_ALONE = "alternative"
"""Measured once: an older commit has the same."""


def main() -> int:
    """Measure, print, write, and say whether the limits hold."""
    options = _options()
    cores = sorted(os.sched_getaffinity(0))[:_CORES]
    os.sched_setaffinity(0, cores)
    load = os.getloadavg()[0]
    with _checkouts(options.before) as roots:
        found = [
            figure
            for part in options.only
            for figure in _measured(part, options, roots)
        ]
    table = figures.beside(found)
    print(figures.as_text(table))
    if set(options.only) == set(_PARTS):
        text = f"{_machine(options, load)}\n\n{figures.as_markdown(table)}"
        figures.write("app", text)
    return 0 if all(figure.holds for figure in table) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.app", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--visitors", type=int, default=30, help="at the same moment")
    parser.add_argument("--browsers", type=int, default=2, help="beside the visitors")
    parser.add_argument("--seconds", type=float, default=20, help="that all move")
    parser.add_argument("--streamlit", help="a Python that has Streamlit and plotly")
    parser.add_argument("--before", help="a commit to compare with", metavar="COMMIT")
    parser.add_argument("--rounds", type=int, help="of each part; 3 with --before")
    options = parser.parse_args()
    options.rounds = options.rounds or (_ROUNDS if options.before else 1)
    return options


@contextmanager
def _checkouts(before: str | None) -> Iterator[list[Path]]:
    """Yield the folder of this checkout, and of the one to compare with."""
    if not before:
        yield [servers.ROOT]
        return
    with served.checkout(before) as root:
        yield [servers.ROOT, root]


def _options_for(options: argparse.Namespace, root: Path) -> argparse.Namespace:
    """Return the options, with the checkout that is measured."""
    return argparse.Namespace(**vars(options), root=root)


def _measured(
    part: str, options: argparse.Namespace, roots: Sequence[Path]
) -> list[figures.Figure]:
    """Measure a part of each checkout by turns, each round in the other order."""
    if part == _ALONE:
        return _PARTS[part](options)
    found: dict[Path, list[list[figures.Figure]]] = {root: [] for root in roots}
    for turn in range(options.rounds):
        for root in roots[:: 1 if turn % 2 == 0 else -1]:
            which = "" if root == servers.ROOT else " before"
            print(f"Measuring{which}: {part} ...", file=sys.stderr, flush=True)
            found[root].append(
                _PARTS[part](argparse.Namespace(**vars(options), root=root))
            )
    own, *before = (figures.typical(found[root]) for root in roots)
    return [*own, *(figure.of_before() for others in before for figure in others)]


def _machine(options: argparse.Namespace, load: float) -> str:
    versions = figures.versions(
        "voila", "jupyterlab", "notebook", "ipywidgets", "anywidget", "plotly"
    )
    cores = len(os.sched_getaffinity(0))
    beside = ""
    if options.before:
        beside = (
            f" Before: commit {options.before}, measured by turns in the same "
            f"environment; of {options.rounds} rounds the figure in the middle."
        )
    return (
        f"Measured on {cores} cores ({platform.machine()}), load {load:.1f} before the "
        f"start; {versions}.{beside}"
    )


if __name__ == "__main__":
    sys.exit(main())
