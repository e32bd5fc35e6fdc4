"""A heat map of a sweep: one box per plan, its figure written in it.

The boxes are bars, which can be hatched; plotly's own heat map cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError
from planner.show.charts.frame import INK, base_layout, note_above, titled
from planner.show.grid import FIRST, hover_text, legend, short_text, unit_of
from planner.show.palette import faded

if TYPE_CHECKING:
    from planner.solve.comparing.cells import Cell
    from planner.solve.comparing.grid import Axis, Grid

MOST_DRAWN = 2_500
_SCALE = ("#440154", "#3B528B", "#21918C", "#5EC962", "#FDE725")
"""Viridis, whose order is visible with every kind of colour vision."""
_EMPTY = "rgba(128, 128, 128, 0.09)"
_STROKE = "#808080"
_HATCHES = {"does not fit": "/", "too close to call": ".", "refused": "x"}
_OTHER_HATCH = "x"
_ROW_PIXELS = 38
_MOST_PIXELS = 760
_TOP_PIXELS = 46
_MOST_TICKS = 12
_LOG_FROM = 20
_LINEAR_TO = 0.04045
_LONG_LABEL = 9
_BLACK, _WHITE = "#000000", "#FFFFFF"


def figure_spec(grid: Grid, value: str = FIRST) -> dict[str, Any]:
    """Describe the figure in plotly's JSON, without importing plotly.

    Raises:
        PlannerError: for more cells than a reader can distinguish.
    """
    if len(grid.cells) > MOST_DRAWN:
        raise PlannerError(
            f"A heat map shows at most {MOST_DRAWN:,} plans, and this sweep has "
            f"{len(grid.cells):,}: take fewer values, or to_frame()."
        )
    return {
        "data": [_boxes(grid, value)],
        "layout": boxes_layout(grid.axes, _title(grid, value)),
    }


def _boxes(grid: Grid, value: str) -> dict[str, Any]:
    return boxes(
        value,
        rows=len(grid.axes[1].values) if len(grid.axes) > 1 else 1,
        texts=[short_text(cell, value) for cell in grid.cells],
        hovers=[hover_text(cell, grid, value) for cell in grid.cells],
        fills=_fills(grid, value),
        hatches=[_hatch(cell) for cell in grid.cells],
    )


def boxes(  # noqa: PLR0913 - what a box shows
    name: str,
    *,
    rows: int,
    texts: Sequence[str],
    hovers: Sequence[str],
    fills: Sequence[str | None],
    hatches: Sequence[str],
) -> dict[str, Any]:
    """Describe boxes as one trace, column by column from the left.

    Args:
        name: of the trace.
        rows: boxes of a column, from the bottom.
        texts: what is written in each box.
        hovers: what a pointer over it shows.
        fills: its colour; None: empty.
        hatches: its hatch, as plotly names it; "": none.
    """
    count = len(texts)
    return {
        "type": "bar",
        "name": name,
        "x": [number // rows for number in range(count)],
        "base": [number % rows - 0.5 for number in range(count)],
        "y": [1] * count,
        "width": 1,
        "text": list(texts),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {
            "size": 12,
            "color": [INK if fill is None else label_colour(fill) for fill in fills],
        },
        "customdata": list(hovers),
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "color": [fill or _EMPTY for fill in fills],
            "line": {"color": "rgba(128, 128, 128, 0.4)", "width": 1},
            "pattern": {
                "shape": list(hatches),
                "fgcolor": faded(_STROKE, 0.23),
                "fillmode": "overlay",
                "size": 9,
                "solidity": 0.15,
            },
        },
    }


def _hatch(cell: Cell) -> str:
    return "" if cell.fits else _HATCHES.get(cell.verdict, _OTHER_HATCH)


def _fills(grid: Grid, value: str) -> list[str | None]:
    """Return the colour of every cell that fits; None for the others."""
    figures = [cell.figure(value) if cell.fits else None for cell in grid.cells]
    known = [figure for figure in figures if figure is not None]
    if not known:
        return [None] * len(figures)
    low, high = min(known), max(known)
    is_log = low > 0 and high > _LOG_FROM * low
    return [
        None if figure is None else colour_at(_share(figure, low, high, is_log=is_log))
        for figure in figures
    ]


def _share(figure: float, low: float, high: float, *, is_log: bool) -> float:
    if low == high:
        return 0.5
    if is_log:
        return log(figure / low) / log(high / low)
    return (figure - low) / (high - low)


def colour_at(share: float) -> str:
    """Return the scale's colour from 0 to 1.

    >>> colour_at(0), colour_at(1)
    ('#440154', '#FDE725')
    """
    place = min(max(share, 0.0), 1.0) * (len(_SCALE) - 1)
    at = min(int(place), len(_SCALE) - 2)
    one, other = _rgb(_SCALE[at]), _rgb(_SCALE[at + 1])
    mixed = (round(a + (b - a) * (place - at)) for a, b in zip(one, other, strict=True))
    return "#" + "".join(f"{part:02X}" for part in mixed)


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def label_colour(fill: str) -> str:
    """Return black or white, whichever can be read better on a fill.

    Source of the formula: WCAG 2.2, relative luminance and contrast ratio.
    """
    parts = (part / 255 for part in _rgb(fill))
    red, green, blue = (
        part / 12.92 if part <= _LINEAR_TO else ((part + 0.055) / 1.055) ** 2.4
        for part in parts
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    on_white, on_black = 1.05 / (luminance + 0.05), (luminance + 0.05) / 0.05
    return _WHITE if on_white > on_black else _BLACK


def boxes_layout(axes: Sequence[Axis], title: str) -> dict[str, Any]:
    """Describe the layout of boxes over one axis or two, below a title."""
    rows = len(axes[1].values) if len(axes) > 1 else 1
    height = min(_MOST_PIXELS, max(2, rows) * _ROW_PIXELS)
    down: dict[str, Any] = {"showticklabels": False, "range": [-0.5, 0.5]}
    if len(axes) > 1:
        down = {**_axis(axes[1]), "automargin": True}
    return {
        **base_layout(height + _TOP_PIXELS + 52, _TOP_PIXELS, 52),
        "barmode": "overlay",
        "bargap": 0,
        "uniformtext": {"mode": "hide", "minsize": 9},
        "xaxis": {**_axis(axes[0]), "automargin": True},
        "yaxis": {**down, "showgrid": False, "zeroline": False, "fixedrange": True},
        "annotations": [note_above(title)],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    count = len(axis.values)
    step = -(-count // _MOST_TICKS)
    return {
        "range": [-0.5, count - 0.5],
        "tickvals": list(range(0, count, step)),
        "ticktext": [_tick(label) for label in axis.labels[::step]],
        **titled(axis.name),
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "ticks": "",
    }


def _tick(label: str) -> str:
    """Break a long label at its dashes, since plotly omits it on a narrow page."""
    plain = label.replace("<", "&lt;")
    return plain.replace("-", "-<br>") if len(label) > _LONG_LABEL else plain


def _title(grid: Grid, value: str) -> str:
    """Name the figure, and explain signs and hatches."""
    unit = {"bytes": "GiB", "requests": "requests at once"}.get(
        unit_of(value), unit_of(value)
    )
    signs = legend(grid)
    return f"<b>{value}</b>, {unit}" + (f"<br>hatched: {signs}" if signs else "")
