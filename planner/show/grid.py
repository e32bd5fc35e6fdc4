"""A sweep: its table, what its signs mean, and one sentence for a screen reader.

The texts of single cells are here too, which the heat map and the curve share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.compared_plans import LABELS, written
from planner.show.html import tag
from planner.show.pieces import Column
from planner.show.sheet import Answer, Apart, Listing, Sheet, Table
from planner.solve.comparing.cells import VALUES
from planner.units import GIB

if TYPE_CHECKING:
    from planner.solve.comparing.cells import Cell
    from planner.solve.comparing.grid import Grid

FIRST = "max_concurrency"
"""The figure that a grid shows by default."""
_MARKS = {
    "fits": "",
    "too close to call": "!",
    "does not fit": "✘",
    "refused": "⊘",
    "not planned": "?",
}
_PARTLY = "◐"
"""It starts, and serves a part of the load."""
_MOST_ERRORS = 8
_SAME_BEGINNING = 24
"""Errors of a kind that share so many first characters differ only in figures."""
_MOST_SHOWN = 2_000
_FIGURES = (
    "max_concurrency",
    "max_concurrency_low",
    "kv_cache_size_tokens",
    "available_kv_cache_bytes",
    "max_model_len_that_fits",
)
_MOST_ROWS = 10
"""Rows of a table that are not folded."""


def unit_of(value: str) -> str:
    """Return the unit of a figure."""
    return VALUES[value].unit


def mark(cell: Cell) -> str:
    """Return a sign that shows without colour that a plan does not start, or serve."""
    return _MARKS[cell.verdict] if not cell.fits or cell.serves else _PARTLY


def verdict_words(cell: Cell) -> str:
    """Write whether a plan starts; with a load, how many of it are served at once."""
    if not cell.fits or cell.load_requests is None:
        return cell.verdict
    served = min(cell.requests_served or 0, cell.load_requests)
    return f"starts, serves {served:,} of {cell.load_requests:,}"


def legend(grid: Grid) -> str:
    """Explain the signs that occur in this grid."""
    met = dict.fromkeys(cell.verdict for cell in grid.cells)
    signs = [f"{_MARKS[name]} {name}" for name in _MARKS if name in met]
    if any(cell.fits and not cell.serves for cell in grid.cells):
        signs.append(f"{_PARTLY} starts, serves less than the load")
    return ", ".join(sign for sign in signs if not sign.startswith(" "))


def cell_text(cell: Cell, value: str) -> str:
    """Write a figure of a cell, behind its sign where the plan does not fit."""
    text = "" if cell.figure(value) is None else figure_text(cell, value)
    return f"{mark(cell)} {text}".strip() or "none"


def short_text(cell: Cell, value: str) -> str:
    """Write the same briefly, for a small box."""
    figure = cell.figure(value)
    text = "" if figure is None else brief(figure, unit_of(value))
    return f"{mark(cell)} {text}".strip()


def brief(figure: float, unit: str) -> str:
    """Write a figure in few characters; bytes as GiB.

    >>> brief(9.456, "requests"), brief(387328, "tokens"), brief(3 * GIB // 2, "bytes")
    ('9.46', '387k', '1.50')
    """
    if unit == "bytes":
        return f"{figure / GIB:,.2f}"
    for factor, letter in ((1e6, "M"), (1e3, "k")):
        if abs(figure) >= 10 * factor:
            return f"{figure / factor:,.0f}{letter}"
        if abs(figure) >= factor:
            return f"{figure / factor:,.1f}{letter}"
    return f"{figure:,.2f}" if unit == "requests" else f"{figure:,}"


def hover_text(cell: Cell, grid: Grid, value: str) -> str:
    """Write the label that a pointer over a cell shows."""
    where = ", ".join(_places(grid, cell)).replace("<", "&lt;")
    lines = [f"<b>{cell_text(cell, value)}</b>", where]
    if cell.error is None and cell.figure("max_concurrency_low") is not None:
        low = written(cell.max_concurrency_low, "requests")
        lines.append(f"at least {low} at once, {verdict_words(cell)}")
    else:
        lines.append(cell.verdict)
    return "<br>".join(lines)


def _subject(grid: Grid) -> str:
    named = [axis.name for axis in grid.axes]
    gpu, model = grid.inputs.gpu, grid.inputs.model
    of = "" if "model" in named else str(getattr(model, "name", model))
    on = "" if "gpu" in named else f" on {getattr(gpu, 'name', gpu)}"
    return f"{of}{on}".strip() or "Plans"


def _over(grid: Grid) -> str:
    return " and ".join(axis.name for axis in grid.axes)


def figures_shown(value: str) -> tuple[str, ...]:
    """Return the figures of a table over one argument: the usual ones, and `value`."""
    return _FIGURES if value in _FIGURES else (*_FIGURES, value)


def figure_text(cell: Cell, name: str) -> str:
    """Write one figure of a cell."""
    figure = cell.figure(name)
    return "none" if figure is None else written(figure, unit_of(name))


def errors(grid: Grid) -> list[str]:
    """Return each kind of error once, by its first message; only the first few."""
    kinds: dict[str, str] = {}
    for cell in grid.cells:
        if cell.error_kind is not None and cell.error is not None:
            kinds.setdefault(
                cell.error_kind + cell.error[:_SAME_BEGINNING],
                f"{mark(cell)} {cell.error_kind}: {cell.error}",
            )
    return list(kinds.values())[:_MOST_ERRORS]


def spoken(grid: Grid, value: str = FIRST) -> str:
    """Describe the heat map for a screen reader, as the chart's `aria-label`."""
    start = f"{value} of {_subject(grid)} over {_over(grid)}: {_counted(grid)}"
    ends = _ends(grid, value)
    return f"{start}, {ends}." if ends else f"{start}."


def _counted(grid: Grid) -> str:
    """Write how many plans start; with a load, how many serve all of it."""
    number, load = len(grid.cells), grid.inputs.load
    if load is None:
        return f"{sum(cell.fits for cell in grid.cells):,} of {number:,} plans fit"
    serving = sum(cell.serves for cell in grid.cells)
    return f"{serving:,} of {number:,} plans serve {load.requests:,} at once"


def _known(grid: Grid, value: str) -> list[tuple[float, Cell]]:
    return [
        (figure, cell)
        for cell in grid.cells
        if cell.fits and (figure := cell.figure(value)) is not None
    ]


def _ends(grid: Grid, value: str) -> str:
    """Write the least and the most of a figure, and where; empty where none fits."""
    known = _known(grid, value)
    if not known:
        return ""
    least, most = (
        f"{figure_text(cell, value)} at {' and '.join(_places(grid, cell))}"
        for cell in (
            min(known, key=lambda pair: pair[0])[1],
            max(known, key=lambda pair: pair[0])[1],
        )
    )
    return f"from {least} to {most}"


def _places(grid: Grid, cell: Cell) -> list[str]:
    return [
        f"{axis.name} {axis.labels[axis.values.index(given)]}"
        for axis, given in zip(grid.axes, cell.values, strict=True)
    ]


def sheet(grid: Grid, value: str = FIRST) -> Sheet:
    """Say how many plans fit, each one's figure, what signs mean, and each error."""
    if len(grid.cells) > _MOST_SHOWN:
        count = f"{len(grid.cells):,} plans are too many for a table: "
        return Sheet((spoken(grid, value), f"{count}to_frame() has them all."))
    is_line = len(grid.axes) == 1
    signs = "" if is_line else legend(grid)  # one axis has them in words
    return Sheet(
        (
            _answer(grid, value),
            _over_one(grid, value) if is_line else _over_two(grid, value),
            Apart(signs, tag("p", signs, class_="pl-bar-name")) if signs else None,
            Listing(errors(grid), "Why some do not fit", is_folded=True),
        )
    )


def _answer(grid: Grid, value: str) -> Answer:
    """Say how many plans fit, or serve, and between which ends the figure is."""
    good = any(cell.serves for cell in grid.cells)
    ends = _ends(grid, value)
    tone, symbol = ("open", "i") if good else ("short", "✘")
    return Answer(
        tone=tone,
        symbol=symbol,
        headline=_counted(grid),
        subject=f"{_subject(grid)}, {_over(grid)}",
        sentence=f"{LABELS.get(value, value)} {ends}." if ends else "",
    )


def _over_one(grid: Grid, value: str) -> Table:
    """Return a row per value, with the most important figures."""
    (axis,) = grid.axes
    names = figures_shown(value)
    if grid.inputs.load is not None:
        names = ("requests_served", *names)
    rows = [
        (
            label,
            f"{mark(cell)} {verdict_words(cell)}".strip(),
            *(figure_text(cell, name) for name in names),
        )
        for label, cell in zip(axis.labels, grid.cells, strict=True)
    ]
    figures = (LABELS.get(name, name) for name in names)
    heads: tuple[Column, ...] = (axis.name, ("Verdict", "pl-word"), *figures)
    return Table(f"Plans over {axis.name}", heads, rows, most=_MOST_ROWS)


def _over_two(grid: Grid, value: str) -> Table:
    """Return the first axis across and the second down, as in the heat map."""
    across, down = grid.axes
    rows = [
        (label, *(_cell(cell, value) for cell in grid.cells[at :: len(down.values)]))
        for at, label in enumerate(down.labels)
    ]
    caption = f"{LABELS.get(value, value)}: {across.name} across, {down.name} down"
    return Table(caption, (down.name, *across.labels), rows, most=_MOST_ROWS)


def _cell(cell: Cell, value: str) -> str | Apart:
    text = cell_text(cell, value)
    return text if cell.fits else Apart(text, tag("span", text, class_="pl-short"))
