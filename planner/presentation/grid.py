"""A sweep as text, as a pandas frame, and as one sentence for a screen reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.presentation.comparison import columns, written
from planner.presentation.frames import make_frame
from planner.units import GIB

if TYPE_CHECKING:
    import pandas as pd

    from planner.comparing.cells import Cell
    from planner.comparing.grid import Grid
    from planner.comparing.lines import Curve

FIRST = "max_concurrency"
"""What a grid shows unless something else is asked for."""
UNITS = {
    "max_concurrency": "requests",
    "max_concurrency_low": "requests",
    "kv_cache_size_tokens": "tokens",
    "max_model_len": "tokens",
    "max_model_len_that_fits": "tokens",
    "num_gpu_blocks": "blocks",
    "gpus_total": "GPUs",
}
"""Of the figures that are no bytes."""
_MARKS = {
    "fits": "",
    "too close to call": "!",
    "does not fit": "✘",
    "refused": "⊘",
    "not planned": "?",
}
_MOST_COLUMNS = 12
_MOST_ERRORS = 8
_SAME_BEGINNING = 24
"""Characters by which two errors of a kind are the same: figures come later."""
_FIGURES = (
    "available_kv_cache_bytes",
    "kv_cache_size_tokens",
    "max_concurrency",
    "max_concurrency_low",
    "max_model_len_that_fits",
)


def unit_of(value: str) -> str:
    """Return the unit of a figure."""
    return UNITS.get(value, "bytes")


def mimebundle(grid: Grid) -> dict[str, str]:
    """Return the grid as text and as HTML."""
    from planner.presentation.grid_html import whole_html  # noqa: PLC0415

    return {"text/plain": grid_text(grid), "text/html": whole_html(grid)}


def frame(grid: Grid) -> pd.DataFrame:
    """Return one row per plan.

    Raises:
        PlannerError: when pandas is not installed.
    """
    rows = grid.rows()
    names = list(rows[0])
    return make_frame([[row[name] for name in names] for row in rows], names)


def mark(cell: Cell) -> str:
    """Return a sign that says without colour that a plan does not start."""
    return _MARKS[cell.verdict]


def legend(grid: Grid) -> str:
    """Say what the signs mean that this grid has."""
    met = dict.fromkeys(cell.verdict for cell in grid.cells)
    told = [f"{_MARKS[name]} {name}" for name in _MARKS if name in met and _MARKS[name]]
    return ", ".join(told)


def cell_text(cell: Cell, value: str) -> str:
    """Write a figure of a cell, and what is wrong where something is."""
    text = "" if cell.figure(value) is None else figure_text(cell, value)
    return f"{mark(cell)} {text}".strip() or "none"


def short_text(cell: Cell, value: str) -> str:
    """Write the same as briefly as a small box needs it."""
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
    """Write everything of a cell that a pointer over it should say."""
    named = zip(grid.axes, cell.values, strict=True)
    where = ", ".join(
        f"{axis.name} {axis.labels[axis.values.index(given)]}" for axis, given in named
    )
    lines = [f"<b>{cell_text(cell, value)}</b>", where.replace("<", "&lt;")]
    if cell.error is None and cell.figure("max_concurrency_low") is not None:
        low = written(cell.max_concurrency_low, "requests")
        lines.append(f"at least {low} at once, {cell.verdict}")
    else:
        lines.append(cell.verdict)
    return "<br>".join(lines)


def grid_text(grid: Grid, value: str = FIRST) -> str:
    """Write the grid for a terminal."""
    cells = _one_axis(grid, value) if len(grid.axes) == 1 else _two_axes(grid, value)
    title = f"{_subject(grid)}, {_over(grid)}"
    told = legend(grid)
    first = errors(grid)
    return "\n".join([title, "", *columns(cells), *([told] if told else []), *first])


def _subject(grid: Grid) -> str:
    named = [axis.name for axis in grid.axes]
    gpu, model = grid.inputs.gpu, grid.inputs.model
    told = "" if "model" in named else str(getattr(model, "name", model))
    on = "" if "gpu" in named else f" on {getattr(gpu, 'name', gpu)}"
    return f"{told}{on}".strip() or "Plans"


def _over(grid: Grid) -> str:
    return " and ".join(axis.name for axis in grid.axes)


def figures_shown(value: str) -> tuple[str, ...]:
    """Return the figures that a table over one argument has: the usual, and `value`."""
    return _FIGURES if value in _FIGURES else (*_FIGURES, value)


def _one_axis(grid: Grid, value: str) -> list[list[str]]:
    """Return a row per value, with the figures that matter most beside it."""
    (axis,) = grid.axes
    names = figures_shown(value)
    rows = [[axis.name, "verdict", *names]]
    for label, cell in zip(axis.labels, grid.cells, strict=True):
        rows.append([label, cell.verdict, *(figure_text(cell, n) for n in names)])
    return rows


def figure_text(cell: Cell, name: str) -> str:
    """Write one figure of a cell."""
    figure = cell.figure(name)
    return "none" if figure is None else written(figure, unit_of(name))


def _two_axes(grid: Grid, value: str) -> list[list[str]]:
    """Return the first axis across and the second down, as the heat map has them."""
    across, down = grid.axes
    shown = across.labels[:_MOST_COLUMNS]
    rows = [[f"{value}: {down.name} \\ {across.name}", *shown]]
    for number, label in enumerate(down.labels):
        cells = [
            grid.cells[column * len(down.values) + number]
            for column in range(len(shown))
        ]
        rows.append([label, *(cell_text(cell, value) for cell in cells)])
    return rows


def errors(grid: Grid) -> list[str]:
    """Return each kind of error once, as it was said first; the first few of them."""
    kinds: dict[str, str] = {}
    for cell in grid.cells:
        if cell.error_kind is not None and cell.error is not None:
            kinds.setdefault(
                cell.error_kind + cell.error[:_SAME_BEGINNING],
                f"{mark(cell)} {cell.error_kind}: {cell.error}",
            )
    return list(kinds.values())[:_MOST_ERRORS]


def spoken(grid: Grid, value: str = FIRST) -> str:
    """Read the heat map aloud: the sentence behind the chart's `aria-label`."""
    known = [
        (figure, cell)
        for cell in grid.cells
        if cell.fits and (figure := cell.figure(value)) is not None
    ]
    count = f"{len(known)} of {len(grid.cells)} plans fit"
    told = f"{value} of {_subject(grid)} over {_over(grid)}: {count}"
    if not known:
        return f"{told}."
    ends = [
        f"{cell_text(cell, value)} at {_where(grid, cell)}"
        for cell in (
            min(known, key=lambda pair: pair[0])[1],
            max(known, key=lambda pair: pair[0])[1],
        )
    ]
    return f"{told}, from {ends[0]} to {ends[1]}."


def _where(grid: Grid, cell: Cell) -> str:
    return " and ".join(
        f"{axis.name} {axis.labels[axis.values.index(given)]}"
        for axis, given in zip(grid.axes, cell.values, strict=True)
    )


def spoken_curve(curve: Curve) -> str:
    """Read the lines aloud, from end to end."""
    told = []
    for label, cells in curve.lines:
        points = [cell for cell in cells if cell.figure(curve.value) is not None]
        if not points:
            told.append(f"{label} nothing".strip())
            continue
        ends = [
            f"{cell_text(cell, curve.value)} at {curve.x_of(cell):,}"
            if isinstance(curve.x_of(cell), int)
            else f"{cell_text(cell, curve.value)} at {curve.x_of(cell)}"
            for cell in (points[0], points[-1])
        ]
        told.append(f"{label} from {ends[0]} to {ends[1]}".strip())
    return (
        f"{curve.value} of {_subject(curve.grid)} against {curve.title}: "
        f"{'; '.join(told)}."
    )
