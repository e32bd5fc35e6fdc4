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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure."""

    name: str
    value: float | None
    unit: str
    limit: float | None = None
    """The most it may be; None: measured for comparison."""
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

    def of_alternative(self) -> Figure:
        """Return the figure as one of the alternative's."""
        return replace(self, value=None, alternative=self.value)


def beside(figures: Iterable[Figure]) -> list[Figure]:
    """Put figures of the alternative beside those of the same name."""
    found: dict[str, Figure] = {}
    for figure in figures:
        own = found.get(figure.name)
        if own is not None and figure.value is None:
            figure = replace(own, alternative=figure.alternative)
        found[figure.name] = figure
    return list(found.values())


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
    return f"{value:.0f} {unit}".strip()


def as_text(figures: Iterable[Figure]) -> str:
    """Return the table for a terminal."""
    listed = list(figures)
    has_other = any(figure.alternative is not None for figure in listed)
    rows = [
        (
            "" if figure.limit is None else ("✔" if figure.holds else "✘"),
            figure.name,
            told(figure.value, figure.unit),
            told(figure.limit, figure.unit),
            told(figure.alternative, figure.unit),
        )
        for figure in listed
    ]
    rows.insert(0, ("", "", "this app", "limit", "Streamlit" if has_other else ""))
    widths = [max(len(row[place]) for row in rows) for place in range(5)]
    lines = [
        f"{row[0]:1} {row[1]:{widths[1]}}  {row[2]:>{widths[2]}}  "
        f"{row[3]:>{widths[3]}}  {row[4]:>{widths[4]}}".rstrip()
        for row in rows
    ]
    broken = [figure for figure in listed if not figure.holds and figure.note]
    return "\n".join([*lines, *(f"✘ {one.name}: {one.note}" for one in broken)])


def as_markdown(figures: Iterable[Figure]) -> str:
    """Return the table for the page."""
    listed = list(figures)
    has_other = any(figure.alternative is not None for figure in listed)
    last = " Streamlit |" if has_other else ""
    lines = [
        f"| | limit | this app |{last}",
        f"| --- | ---: | ---: |{' ---: |' if has_other else ''}",
    ]
    for figure in listed:
        value = told(figure.value, figure.unit)
        mark = "" if figure.holds else " ✘"
        note = f" ({figure.note})" if figure.note else ""
        lines.append(
            f"| {figure.name}{note} | {told(figure.limit, figure.unit)} "
            f"| {value}{mark} |"
            + (f" {told(figure.alternative, figure.unit)} |" if has_other else "")
        )
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
