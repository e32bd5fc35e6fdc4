"""Figures with their limits, printed and written into docs/performance.md."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance.md"
MB = 1_000_000
_FEW = 10
"""Below it a figure has a decimal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure."""

    name: str
    value: float | None
    unit: str
    limit: float | None = None
    """The most it may be; None: measured for comparison."""
    before: float | None = None
    """The same of an older commit; None: not measured."""
    alternative: float | None = None
    """The same of the best alternative; None: it has no such thing."""
    note: str = ""
    """How it was measured, where the name does not say."""

    @property
    def holds(self) -> bool:
        """Whether the limit holds."""
        if self.limit is None or self.value is None:
            return True
        return self.value <= self.limit

    def of_before(self) -> Figure:
        """Return the figure as one of the older commit's."""
        return replace(self, value=None, limit=None, before=self.value)

    def of_alternative(self) -> Figure:
        """Return the figure as one of the alternative's."""
        return replace(self, value=None, alternative=self.value)


def beside(figures: Iterable[Figure]) -> list[Figure]:
    """Put figures of the alternative, and of before, beside those of the same name.

    What only an older commit has, such as a count in its name, is left out.
    """
    found: dict[str, Figure] = {}
    for figure in figures:
        own = found.get(figure.name)
        if own is not None and figure.value is None:
            others = (figure.before, figure.alternative)
            before, alternative = (
                mine if given is None else given
                for given, mine in zip(
                    others, (own.before, own.alternative), strict=True
                )
            )
            figure = replace(own, before=before, alternative=alternative)
        elif figure.value is None and figure.alternative is None:
            continue
        found[figure.name] = figure
    return list(found.values())


def typical(rounds: Iterable[Iterable[Figure]]) -> list[Figure]:
    """Return of each name the figure in the middle, or with a limit of 0 the largest.

    Of two in the middle it is the smaller.
    """
    found: dict[str, list[Figure]] = {}
    for figure in (one for figures in rounds for one in figures):
        found.setdefault(figure.name, []).append(figure)
    return [_middle(figures) for figures in found.values()]


def _middle(figures: Sequence[Figure]) -> Figure:
    ordered = sorted(figures, key=lambda one: one.value or 0.0)
    return ordered[-1 if ordered[0].limit == 0 else (len(ordered) - 1) // 2]


def p95(values: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return quantiles(values, n=20, method="inclusive")[-1]


def steps(
    name: str,
    seconds: Sequence[float],
    *,
    p95_limit_ms: float | None = None,
    note: str = "",
) -> list[Figure]:
    """Return median and 95th percentile of steps, in milliseconds."""
    return [
        Figure(
            name=f"{name}, {word}",
            value=1000 * of(seconds),
            unit="ms",
            limit=limit,
            note=note,
        )
        for word, of, limit in (
            ("median", median, None),
            ("95th percentile", p95, p95_limit_ms),
        )
    ]


def told(value: float | None, unit: str) -> str:
    """Write a figure with as many digits as it deserves."""
    if value is None:
        return ""
    if unit == "s":
        return f"{value:.2f} s"
    digits = 1 if unit and value < _FEW else 0
    return f"{value:.{digits}f} {unit}".strip()


def _columns(listed: Sequence[Figure]) -> list[tuple[str, list[str]]]:
    """Return the titles and cells of those columns that have any."""
    values = {
        "limit": [told(one.limit, one.unit) for one in listed],
        "this app": [told(one.value, one.unit) for one in listed],
        "before": [told(one.before, one.unit) for one in listed],
        "Streamlit": [told(one.alternative, one.unit) for one in listed],
    }
    return [(title, cells) for title, cells in values.items() if any(cells)]


def as_text(figures: Iterable[Figure]) -> str:
    """Return the table for a terminal."""
    listed = list(figures)
    columns = [[title, *cells] for title, cells in _columns(listed)]
    marks = [" " if one.limit is None else "✘✔"[one.holds] for one in listed]
    names = [f"{mark} {one.name}" for mark, one in zip(marks, listed, strict=True)]
    table = [["", *names], *columns]
    widths = [max(map(len, cells)) for cells in table]
    lines = [
        f"{row[0]:{widths[0]}}  "
        + "  ".join(map(str.rjust, row[1:], widths[1:])).rstrip()
        for row in zip(*table, strict=True)
    ]
    broken = [figure for figure in listed if not figure.holds and figure.note]
    return "\n".join([*lines, *(f"✘ {one.name}: {one.note}" for one in broken)])


def as_markdown(figures: Iterable[Figure]) -> str:
    """Return the table for the page."""
    listed = list(figures)
    columns = _columns(listed)
    notes = [f" ({one.note})" if one.note else "" for one in listed]
    titles = "".join(f" {title} |" for title, _ in columns)
    lines = [f"| |{titles}", f"| --- |{' ---: |' * len(columns)}"]
    for at, figure in enumerate(listed):
        mark = {"this app": "" if figure.holds else " ✘"}
        cells = "".join(
            f" {cells[at]}{mark.get(title, '')} |" for title, cells in columns
        )
        lines.append(f"| {figure.name}{notes[at]} |{cells}")
    return "\n".join(lines)


def write(part: str, text: str, page: Path | None = None) -> None:
    """Put a measured part into a page, in the place of the last one.

    Args:
        part: whose marks stand around it.
        text: what is written between them.
        page: docs/performance.md unless given.

    Raises:
        ValueError: when the page has no such marks.
    """
    path = page or PAGE
    before = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {part}: measured -->", f"<!-- {part}: end -->"
    found = re.compile(f"{begin}.*?{end}", re.DOTALL)
    if not found.search(before):
        raise ValueError(f"{path} has no place for {part}.")
    fresh = f"{begin}\n{text.strip()}\n{end}"
    path.write_text(found.sub(lambda _: fresh, before), encoding="utf-8")


def versions(*packages: str) -> str:
    """Name the Python and the versions of packages that are there."""
    words = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            words.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(words)
