"""A sweep as HTML: the table that says what the heat map and the curve draw."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from planner.presentation.comparison import LABELS
from planner.presentation.comparison_html import page, table_html
from planner.presentation.grid import (
    FIRST,
    cell_text,
    errors,
    figure_text,
    figures_shown,
    legend,
    mark,
    spoken,
)

if TYPE_CHECKING:
    from planner.comparing.cells import Cell
    from planner.comparing.grid import Grid

_MOST_SHOWN = 2_000


def whole_html(grid: Grid) -> str:
    """Show the table in one self-contained piece; needs no script."""
    return page(grid_html(grid))


def grid_html(grid: Grid, value: str = FIRST) -> str:
    """Show the table, what its signs mean, and each error once."""
    if len(grid.cells) > _MOST_SHOWN:
        return (
            f"<p>{escape(spoken(grid, value))}</p><p>{len(grid.cells):,} plans are too "
            "many for a table: to_frame() has them all.</p>"
        )
    table = _one_axis(grid, value) if len(grid.axes) == 1 else _two_axes(grid, value)
    told = legend(grid)
    signs = f"<p class='pl-bar-name'>{escape(told)}</p>" if told else ""
    items = "".join(f"<li>{escape(error)}</li>" for error in errors(grid))
    return f"{table}{signs}" + (f"<ul class='pl-notes'>{items}</ul>" if items else "")


def _one_axis(grid: Grid, value: str) -> str:
    (axis,) = grid.axes
    names = figures_shown(value)
    rows = [
        [
            label,
            escape(f"{mark(cell)} {cell.verdict}".strip()),
            *(escape(figure_text(cell, name)) for name in names),
        ]
        for label, cell in zip(axis.labels, grid.cells, strict=True)
    ]
    head = [axis.name, "Verdict", *(LABELS.get(name, name) for name in names)]
    return table_html(f"Plans over {axis.name}", head, rows)


def _two_axes(grid: Grid, value: str) -> str:
    across, down = grid.axes
    rows = [
        [
            label,
            *(
                _cell(grid.cells[column * len(down.values) + number], value)
                for column in range(len(across.values))
            ),
        ]
        for number, label in enumerate(down.labels)
    ]
    caption = f"{value}: {across.name} across, {down.name} down"
    return table_html(caption, [down.name, *across.labels], rows)


def _cell(cell: Cell, value: str) -> str:
    text = escape(cell_text(cell, value))
    return text if cell.fits else f"<span class='pl-short'>{text}</span>"
